"""What can be asked for: experiments, schedules and the named recipes. Nothing here imports torch."""

from scail.config.experiment import (
    FILES_SIZE,
    DataSettings,
    ExemplarSettings,
    Experiment,
    HeadOptions,
    Machine,
    Select,
    StreamSettings,
    experiment_from,
    names_with,
    schedule_names,
    schedules_in,
    settings_of,
    with_defaults,
)
from scail.config.recipe import Recipe
from scail.config.recipes import RECIPES
from scail.config.roles import ASKED, NUMBER, WAY
from scail.config.schedule import Schedule, Schedules

__all__ = [
    "ASKED", "FILES_SIZE", "NUMBER", "RECIPES", "WAY", "DataSettings", "ExemplarSettings", "Experiment", "HeadOptions",
    "Machine", "Recipe", "Schedule", "Schedules", "Select", "StreamSettings", "experiment_from", "names_with",
    "schedule_names", "schedules_in", "settings_of", "with_defaults",
]  # fmt: skip
