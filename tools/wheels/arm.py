"""Makes a 64-bit Arm Python for qemu-aarch64 from Debian's packages, without installing them."""

from __future__ import annotations

import subprocess
from pathlib import Path

SUITE, PYTHON = "trixie", "3.13"
MIRROR = "http://deb.debian.org/debian"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
PACKAGES = (
    "python3.13-minimal", "libpython3.13-minimal", "libpython3.13-stdlib", "libc6", "zlib1g",
    "libexpat1", "libgcc-s1", "libstdc++6", "libssl3t64", "libffi8", "liblzma5", "libbz2-1.0",
    "libzstd1", "libsqlite3-0", "libuuid1", "libreadline8t64", "libtinfo6", "libncursesw6")


def root(folder: Path, *, mirror: str = MIRROR) -> Path:
    """A folder with ``usr/bin/python3.13``, made once. apt-get fetches and checks the packages;
    nothing is installed, and what the machine has installed doesn't matter."""
    made = folder / "root"
    if (folder / "made").exists():
        return made
    for name in ("lists/partial", "cache/archives/partial", "root"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror} {SUITE} main\n")
    apt = ["apt-get", "-qq", *(x for option in (
        f"Dir::Etc::SourceList={folder}/sources.list", "Dir::Etc::SourceParts=/dev/null",
        f"Dir::State::Lists={folder}/lists", f"Dir::Cache={folder}/cache",
        "Dir::State::status=/dev/null", "APT::Architecture=arm64", "APT::Architectures=arm64",
        "APT::Sandbox::User=root") for x in ("-o", option))]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "download", *PACKAGES], cwd=folder, check=True)
    for package in sorted(folder.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, made], check=True)
        package.unlink()
    if not (made / "lib").exists():
        (made / "lib").symlink_to("usr/lib")
    (folder / "made").touch()
    return made
