"""An HTTP service for lookups in a lake index; only this package imports fastapi, starlette, pydantic and uvicorn.

`tokens`, `settings`, `errors` and `metrics` come first, then `values`, `models`, `limits` and `rows`, then `service`
(the operations), `app` (the routes), `request_metrics`, and `server`, which runs it.
"""
