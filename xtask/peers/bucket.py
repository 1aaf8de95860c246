"""A server that speaks S3 on loopback, with one empty bucket, until standard input ends.

It prints the address once it is ready. What it holds is in memory.
"""

import sys

import boto3
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
address = f"http://{host}:{port}"
boto3.client(
    "s3", endpoint_url=address, region_name="us-east-1", aws_access_key_id="sage", aws_secret_access_key="sage"
).create_bucket(Bucket="sage")
print(address, flush=True)
sys.stdin.read()
server.stop()
