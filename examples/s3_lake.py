"""A lake in an object store: filters in place, and lookups of a few requests. Read it from top to bottom.

    python examples/s3_lake.py

1. a store that speaks S3's protocol: moto's server, on this machine's loopback; yours is a bucket
2. a lake of Parquet files, written into the bucket
3. filters, embedded into the objects: the store copies the data itself, this process sends the filters and footers
4. lookups: how many requests they take without anything, with a cache of footers and filters, and with an index

Needs `pip install ".[s3]" "moto[server]"` in the checkout.
"""

import logging
import random

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
from moto.server import ThreadedMotoServer

import parquet_bloom

FILES, ROWS = 40, 25_000
LAKE, INDEX = "s3://lake/events/", "s3://lake/users.index"


# 2. The lake. With `storage_options`, any path may be the URL of an object or of a folder in a store.


def write_lake(client: "boto3.client") -> int:
    """Write the lake's objects, and return a user of one of them."""
    dice = random.Random(2026)
    for number in range(FILES):
        events = pa.table(
            {
                "user": [dice.randrange(1 << 40) for _ in range(ROWS)],
                "action": [dice.choice(["view", "buy", "return"]) for _ in range(ROWS)],
                "note": [f"{dice.getrandbits(160):040x}" for _ in range(ROWS)],
            }
        )
        sink = pa.BufferOutputStream()
        pq.write_table(events, sink)
        client.put_object(Bucket="lake", Key=f"events/{number:03d}.parquet", Body=sink.getvalue().to_pybytes())
        if number == FILES // 2:
            user = events.column("user")[4321].as_py()
    return user


def main() -> None:
    print("1. a store on loopback")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # the server's line for each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
        client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1", **keys)
        client.create_bucket(Bucket="lake")
        run(client, {"aws_endpoint": f"http://{host}:{port}", "aws_region": "us-east-1", "allow_http": "true", **keys})
    finally:
        server.stop()


def run(client: "boto3.client", options: dict[str, str]) -> None:
    print(f"2. a lake of {FILES} objects")
    where = f"user = {write_lake(client)}"

    print("3. filters in place")
    bytes_added = 0
    for page in client.get_paginator("list_objects_v2").paginate(Bucket="lake", Prefix="events/"):
        for entry in page["Contents"]:
            report = parquet_bloom.embed(f"s3://lake/{entry['Key']}", ["user"], fpp=0.001, storage_options=options)
            bytes_added += report.bytes_added
    print(f"   {bytes_added:,} bytes added to {FILES} objects")

    print(f"4. {where}")
    print(f"   nothing known:  {parquet_bloom.prune(LAKE, where, storage_options=options)}")
    cache = parquet_bloom.MetadataCache()
    parquet_bloom.prune(LAKE, where, storage_options=options, cache=cache)
    print(f"   filters cached: {parquet_bloom.prune(LAKE, where, storage_options=options, cache=cache)}")
    with parquet_bloom.LakeIndex.create(
        INDEX, ["user"], lake=LAKE, storage_options=options, lake_storage_options=options
    ) as index:
        print(f"   {index.append()}")
    dataset = parquet_bloom.dataset(LAKE, index=INDEX, storage_options=options)
    print(f"   by an index:    {dataset.scan(where).plan()}")
    print(f"   the rows:       {dataset.scan(where).to_arrow().select(['user', 'action']).to_pylist()}")


if __name__ == "__main__":
    main()
