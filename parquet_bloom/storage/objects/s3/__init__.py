"""S3 and the stores that speak its protocol, by way of boto3: `client`, then `attributes`, then `rewrite`."""
