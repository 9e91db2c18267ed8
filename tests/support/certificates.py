"""Certificates for tests, made by the openssl command for each run."""

import shutil
import subprocess

HAS_OPENSSL = shutil.which("openssl") is not None


def openssl(folder, *words):
    subprocess.run(["openssl", *map(str, words)], cwd=folder, check=True, capture_output=True)


def make_authority(folder, name):
    words = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", 30, "-subj", f"/CN={name} authority"]
    openssl(folder, "req", *words, "-keyout", f"{name}.key", "-out", f"{name}.crt")


def make_certificate(folder, name, authority):
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl(folder, "req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
    (folder / f"{name}.ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    sign = ["-CA", f"{authority}.crt", "-CAkey", f"{authority}.key", "-CAcreateserial", "-days", 30]
    files = ["-in", f"{name}.csr", "-out", f"{name}.crt", "-extfile", f"{name}.ext"]
    openssl(folder, "x509", "-req", *files, *sign)
