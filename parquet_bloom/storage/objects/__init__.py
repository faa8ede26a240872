"""Object stores, read and written through obstore.

`failures`, `limits` and `event_loop` come first, then `client`, `errors`, `options` and `location`, then `source`,
`listing` and `batch`; `put_if_absent` and `rewrite` build on `s3`, which uses boto3.
"""
