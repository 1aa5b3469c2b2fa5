"""The core of the server: it starts a worker process for each model and passes questions on.

``process.py`` is a worker as the server sees it, ``ticket.py`` a request on its way, ``hosted.py``
a model with its worker and its requests, ``supervisor.py`` all models. Nothing here loads NumPy.
"""

from unladen.server.supervisor.supervisor import Supervisor

__all__ = ["Supervisor"]
