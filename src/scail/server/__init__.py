"""A page and an API around a classifier's folder.

serving.py     what a server is told, and the web server that runs
app.py         the app: its parts put together
guard.py       what every request passes: token, origin, sizes, headers
current.py     the model that answers now; a newer one takes its place while it answers
answers.py     pictures in, answers out, on all cores
desk.py        the server's own folder: jobs, what came of them, the inbox
tutor.py       the process that learns; the only one that imports torch
*_routes.py    the API
page/          the page: plain HTML, CSS and scripts
"""
