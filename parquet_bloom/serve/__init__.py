"""An HTTP service for lookups in a lake index; only this package imports fastapi, starlette, pydantic and uvicorn.

`settings` and `errors` come first, then `values`, `models`, `limits` and `rows`, then `service` (the operations), `app`
(the routes), and `server`, which runs it.
"""
