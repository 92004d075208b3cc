"""A certificate authority for tests: signs certificates for 127.0.0.1 and for clients, with openssl."""

import shutil
import subprocess
from pathlib import Path

import pytest


class Authority:
    """A CA in *directory*; skips the test where openssl is not installed."""

    def __init__(self, directory: Path, name: str = "test-ca") -> None:
        if shutil.which("openssl") is None:
            pytest.skip("not installed: openssl")
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.certificate, self._key = directory / "ca.crt", directory / "ca.key"
        self._openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", f"/CN={name}", "-keyout", str(self._key), "-out", str(self.certificate),
        )  # fmt: skip

    def issue(self, name: str) -> tuple[Path, Path]:
        """Return certificate and key of *name*, good for a server on 127.0.0.1 and for a client."""
        certificate, key = self.directory / f"{name}.crt", self.directory / f"{name}.key"
        request, extension = self.directory / f"{name}.csr", self.directory / f"{name}.ext"
        extension.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth\n")
        self._openssl(
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
            "-keyout", str(key), "-out", str(request),
        )  # fmt: skip
        self._openssl(
            "x509", "-req", "-in", str(request), "-CA", str(self.certificate), "-CAkey", str(self._key),
            "-CAcreateserial", "-days", "2", "-extfile", str(extension), "-out", str(certificate),
        )  # fmt: skip
        return certificate, key

    @staticmethod
    def _openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
