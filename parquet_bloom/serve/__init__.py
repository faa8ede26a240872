"""An HTTP service for lookups in a lake index; only this package imports fastapi, starlette, pydantic and uvicorn."""
