"""An HTTP service for lookups in a lake index. Only this package imports fastapi, starlette, pydantic and uvicorn."""
