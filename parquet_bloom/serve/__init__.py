"""A lake index answering over HTTP. Only this unit imports fastapi, starlette, pydantic and uvicorn."""
