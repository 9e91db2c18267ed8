"""A service of buckets as S3 is, in memory: signatures checked, conditions kept, faults on demand."""

import hashlib
import hmac
import re
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

ACCESS_KEY, SECRET_KEY, REGION = "tester", "the secret/+of the tester", "middle-1"
PAGE_KEYS = 7


class Bucket:
    """What a bucket holds, and what is to go wrong."""

    def __init__(self):
        self.objects = {}
        self.lock = threading.Lock()
        self.requests = []
        # Called with the method and the key before a request; what it returns is the fault.
        self.fault = lambda method, key: None

    def put(self, key, body):
        etag = f'"{hashlib.md5(body).hexdigest()}"'
        self.objects[key] = (body, etag, time.time())
        return etag


def signature(method, path, query, headers, names, secret=SECRET_KEY, region=REGION):
    """The signature that the documentation of version 4 asks for."""
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in query)
    canonical = "\n".join([
        method,
        quote(unquote(path), safe="/-_.~"),
        "&".join(f"{name}={value}" for name, value in pairs),
        *(f"{name}:{headers[name].strip()}" for name in names),
        "",
        ";".join(names),
        headers["x-amz-content-sha256"],
    ])
    when = headers["x-amz-date"]
    scope = f"{when[:8]}/{region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", when, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for part in (when[:8], region, "s3", "aws4_request", text):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


class Handler(BaseHTTPRequestHandler):
    """Answers one connection's requests."""

    protocol_version = "HTTP/1.1"
    # Head and body are sent each by itself: the body would wait until the client has acknowledged the head.
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code):
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>as &lt;asked&gt;</Message></Error>"
        self.answer(status, text.encode())

    def is_signed(self, path, query, body):
        found = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d+)/([^/]+)/s3/aws4_request,SignedHeaders=([^,]+),Signature=(\w+)",
            self.headers.get("authorization", ""),
        )
        if not found or found[1] != ACCESS_KEY or found[3] != REGION:
            return False
        if self.headers["x-amz-content-sha256"] != hashlib.sha256(body).hexdigest():
            return False
        names = found[4].split(";")
        headers = {name: self.headers[name] for name in {*names, "x-amz-content-sha256", "x-amz-date"}}
        return "host" in names and signature(self.command, path, query, headers, names) == found[5]

    def handle_request(self):
        bucket = self.server.bucket
        parts = urlsplit(self.path)
        query = parse_qsl(parts.query, keep_blank_values=True)
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        name, _, key = unquote(parts.path).lstrip("/").partition("/")
        bucket.requests.append((self.command, key))
        fault = bucket.fault(self.command, key)
        if fault == "cut":
            self.close_connection = True
            return
        if isinstance(fault, int):
            self.refuse(fault, "SlowDown" if fault == 503 else "InternalError")
            return
        if not self.is_signed(parts.path, query, body):
            self.refuse(403, "SignatureDoesNotMatch")
        elif name != "backups":
            self.refuse(404, "NoSuchBucket")
        else:
            with bucket.lock:
                status, body, headers = self.perform(bucket, key, dict(query), body)
            if fault == "lose the answer":
                self.close_connection = True
            elif status >= 300:
                self.refuse(status, body)
            else:
                self.answer(status, body, **headers)

    def perform(self, bucket, key, query, body):
        """What the request does: its status, the body or the code of the error, headers."""
        if self.command == "GET" and not key:
            return self.page(bucket, query)
        found = bucket.objects.get(key)
        if self.command == "PUT":
            if self.headers.get("if-none-match") == "*" and found:
                return 412, "PreconditionFailed", {}
            wanted = self.headers.get("if-match")
            if wanted and not found:
                return 404, "NoSuchKey", {}
            if wanted and wanted != found[1]:
                return 412, "PreconditionFailed", {}
            return 200, b"", {"ETag": bucket.put(key, body)}
        if self.command == "DELETE":
            bucket.objects.pop(key, None)
            return 204, b"", {}
        if not found:
            return 404, "NoSuchKey", {}
        body, etag, when = found
        headers = {"ETag": etag, "Last_Modified": formatdate(when, usegmt=True)}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        if not wanted:
            return 200, body, headers
        first, last = int(wanted[1]), int(wanted[2])
        if first >= len(body):
            return 416, "InvalidRange", {}
        return 206, body[first : last + 1], headers

    def page(self, bucket, query):
        keys = sorted(key for key in bucket.objects if key.startswith(query.get("prefix", "")))
        begin = int(query.get("continuation-token", "0"))
        part = keys[begin : begin + PAGE_KEYS]
        text = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(bucket.objects[key][0])}</Size></Contents>" for key in part
        )
        if begin + PAGE_KEYS < len(keys):
            text += f"<NextContinuationToken>{begin + PAGE_KEYS}</NextContinuationToken>"
        return 200, f"<ListBucketResult>{text}</ListBucketResult>".encode(), {"Content_Type": "application/xml"}

    do_GET = do_PUT = do_HEAD = do_DELETE = handle_request


class Service:
    """The service, listening at a free port, with the bucket `backups`."""

    def __init__(self, tls=None):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.bucket = self.bucket = Bucket()
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def place(self, prefix="", **options):
        """The URL of an archive, for the settings and the command line of the program."""
        words = [f"endpoint={self.url}", f"region={REGION}", *(f"{name}={value}" for name, value in options.items())]
        return f"s3://backups/{prefix}?{'&'.join(words)}"

    @property
    def environment(self):
        return {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}

    def close(self):
        self.server.shutdown()
        self.server.server_close()
