"""Self-signed certificates, and a TLS front for a service."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def own_certificate(folder: Path) -> Path:
    """Create a self-signed certificate for `localhost`, with its key in `key.pem` next to it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    certificate = folder / "certificate.pem"
    certificate.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    return certificate


@contextmanager
def tls_front(port: int, folder: Path) -> Iterator[tuple[str, Path]]:
    """Offer TLS in front of a port of this machine, as a reverse proxy does; yield the address and the certificate."""
    certificate = own_certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, folder / "key.pem")
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(
        asyncio.start_server(lambda near, far: _join(near, far, port), "localhost", 0, ssl=context)
    )
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"https://localhost:{server.sockets[0].getsockname()[1]}", certificate
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.gather(_pump(reader, behind_writer), _pump(behind_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
