"""The Hugging Face hub, asked through huggingface_hub: the one place of Regard that opens a connection to elsewhere.

Whatever goes wrong there is one line in our own words. What a server sends is not repeated in it, and neither is the
token of the user, which Regard never reads, stores or shows: huggingface_hub sends it.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from regard import __version__, storage
from regard.errors import DataError, RegardError, RunError, SettingError, StorageError

Say = Callable[[str], None]

PREFIX = "hub:"                            # of a model's name where a path may stand, too
NAME = re.compile(r"[A-Za-z0-9_](?:[\w.-]{0,94}[A-Za-z0-9_])?", re.ASCII)
REVISION = re.compile(r"[\w.][\w./-]{0,199}", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40}")
WAITS = re.compile(r"(?:Waiting|Retrying in) ([\d.]+)s")           # what huggingface_hub logs before it tries again
DISK = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS)
UNREACHED = {"TimeoutException", "NetworkError", "ProtocolError", "ProxyError", "ConnectionError", "TimeoutError"}
LOG_IN = "log in by `hf auth login`, or put a token into the variable HF_TOKEN"
LARGEST_TEXT = 2**28                      # bytes of a file without tensors, which is read whole


def check_name(name: str) -> str:
    """Return a name of the form OWNER/NAME; any other is a SettingError."""
    parts = name.split("/")
    fits = len(parts) == 2 and all(map(NAME.fullmatch, parts)) and len(name) <= 96
    if not fits or "--" in name or ".." in name or name.endswith(".git"):
        raise SettingError(f"{name!r} is no name on the hub: write OWNER/NAME, of letters, digits, -, _ and .")
    return name


def check_revision(revision: str | None) -> str | None:
    if revision is not None and (not REVISION.fullmatch(revision) or ".." in revision):
        raise SettingError(f"--revision {revision!r}: name a branch, a tag or a commit")
    return revision


@dataclass(frozen=True)
class HubFile:
    """A file of a repository, as the hub lists it."""

    size: int
    sha256: str = ""                       # of a large file
    blob: str = ""                         # of a small one: git's hash

    def matches(self, path: Path) -> bool:
        """True if this file has the size and the hash that the hub lists."""
        if path.stat().st_size != self.size:
            return False
        if self.sha256:
            return storage.file_digest(path) == self.sha256
        return git_hash(path.read_bytes()) == self.blob


def git_hash(data: bytes) -> str:
    """Return the hash by which git, and so the hub, knows a file."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Listing:
    """A repository at one commit."""

    commit: str
    private: bool
    files: Mapping[str, HubFile]


class Hub:
    """The calls that Regard makes, each with errors of one line. `name` is OWNER/NAME."""

    def __init__(self, name: str, say: Say):
        self.name, self.say = check_name(name), say
        try:
            from huggingface_hub import HfApi
        except ImportError:
            raise SettingError("the hub needs the package huggingface_hub: pip install 'regard[hub]'") from None
        with self.asked():
            self.api = HfApi(library_name="regard", library_version=__version__)

    @property
    def host(self) -> str:
        return urlsplit(self.api.endpoint).hostname or "the hub"

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Whatever is raised inside becomes one line; nothing that a server wrote is printed."""
        with quiet(self.say):
            try:
                yield
            except RegardError:
                raise
            except Exception as error:     # huggingface_hub, its HTTP client and hf_xet raise many kinds
                raise self.explain(error) from None

    def explain(self, error: Exception) -> RegardError:
        """Return an error in our words: by its HTTP status, or else by its kind."""
        status, code = answer_to(error)
        if status is not None:
            return self.explain_status(status, code)
        chain = list(causes(error))
        kinds = {kind.__name__ for each in chain for kind in type(each).__mro__}
        for each in chain:
            if isinstance(each, OSError) and each.errno in DISK:
                return StorageError(storage.explain("use", Path(each.filename or "."), each))
        if "OfflineModeIsEnabled" in kinds:
            return RunError("HF_HUB_OFFLINE is set, so that the hub is not asked: unset it")
        if kinds & UNREACHED:
            return RunError(f"no connection to {self.host}: check the network, and HF_ENDPOINT if that is set")
        return RunError(f"{self.host} gave an answer that is not understood ({type(error).__name__}): try again later")

    def explain_status(self, status: int, code: str) -> RegardError:
        name, host = self.name, self.host
        if code == "RevisionNotFound":
            return DataError(f"{name} has no such revision: name a branch, a tag or a commit that it has")
        if code == "GatedRepo":
            return DataError(f"{name} is gated: ask for access on its page at {host}, and {LOG_IN}")
        if code == "RepoNotFound" or (status == HTTPStatus.NOT_FOUND and code != "EntryNotFound"):
            return DataError(f"{host} shows no {name}: check the name; if it is private, {LOG_IN}")
        if status == HTTPStatus.UNAUTHORIZED:
            return SettingError(f"{host} does not know you, or your token no longer: {LOG_IN}")
        if status == HTTPStatus.FORBIDDEN:
            return DataError(f"{host} does not allow this for {name}: your token needs the right to write there, or "
                             "to read what is private")
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            return RunError(f"{host} was asked too often: try again in some minutes")
        if status in (HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED):
            return RunError(f"{name} was changed by somebody else at the same time: try again")
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return RunError(f"{host} has trouble of its own ({spell_status(status)}): try again later")
        return RunError(f"{host} refuses ({spell_status(status)})")

    # --------------------------------------------------------------------------------------- questions

    def require_login(self) -> None:
        """Refuse early where nobody is logged in; the token itself is not looked at."""
        from huggingface_hub import get_token

        with self.asked():
            known = get_token() is not None
        if not known:
            raise SettingError(f"the hub does not know you: {LOG_IN}")

    def list_files(self, revision: str | None = None) -> Listing:
        """Return what a repository holds."""
        with self.asked():
            info = self.api.model_info(self.name, revision=check_revision(revision), files_metadata=True)
            files = {each.rfilename: HubFile(int(each.size or 0), each.lfs.sha256 if each.lfs else "",
                                             each.blob_id or "") for each in info.siblings or ()}
            if not COMMIT.fullmatch(str(info.sha)):
                raise ValueError("no commit")
            return Listing(str(info.sha), bool(info.private), files)

    def create(self, private: bool, branch: str | None) -> str:
        """Make the repository, and the branch, unless they exist; return the address of its page."""
        with self.asked():
            self.api.create_repo(self.name, private=private or None, exist_ok=True)
            if branch is not None:
                self.api.create_branch(self.name, branch=branch, exist_ok=True)
            return f"{self.api.endpoint}/{self.name}"

    def commit(
        self, files: Mapping[str, bytes | Path], gone: Sequence[str], message: str, branch: str | None, parent: str,
        digests: Mapping[str, str],
    ) -> str:
        """Upload these files and remove others, in one commit; return its hash.

        Large files must have the SHA-256 that `digests` has, asked when they were uploaded and before anything counts.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        with self.asked():
            added = [CommitOperationAdd(path, source) for path, source in files.items()]
            self.api.preupload_lfs_files(self.name, added, revision=branch)
            for each in added:
                wanted = digests.get(each.path_in_repo)
                if wanted is not None and each.upload_info.sha256.hex() != wanted:
                    raise RunError(f"{each.path_in_repo} changed while it was uploaded: push again when nothing "
                                   "writes to the run")
            done = self.api.create_commit(
                self.name, [*added, *map(CommitOperationDelete, gone)], commit_message=message, revision=branch,
                parent_commit=parent)
            return str(done.oid)

    def download(self, listing: Listing, paths: Sequence[str], folder: Path) -> None:
        """Fetch files of a commit into a folder, under their own paths; each is compared with the hub's hash."""
        for path in paths:
            self.check_path(path, listing.files[path])
            with self.asked():
                fetched = Path(self.api.hf_hub_download(self.name, path, revision=listing.commit, local_dir=folder))
            if fetched.is_symlink() or not fetched.is_file() or not listing.files[path].matches(fetched):
                raise DataError(f"{path} of {self.name} did not arrive as it is on the hub: try again")
            storage.sync_file(fetched)

    def check_path(self, path: str, file: HubFile) -> None:
        parts = PurePosixPath(path).parts
        if path.startswith("/") or "\\" in path or any(part in ("..", ".") for part in parts):
            raise DataError(f"{self.name} names a file outside its folder: it is not fetched")
        if not path.endswith(".safetensors") and file.size > LARGEST_TEXT:
            raise DataError(f"{path} of {self.name} has {file.size:,} bytes: no such file is so large")


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that it was raised from."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def answer_to(error: Exception) -> tuple[int | None, str]:
    """Return the HTTP status of the answer that an error is of, and the hub's code; None where there is none."""
    for each in causes(error):
        response: Any = getattr(each, "response", None)
        if (status := getattr(response, "status_code", None)) is not None:
            return int(status), str(response.headers.get("X-Error-Code") or "")
    return None, ""


def spell_status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


# ------------------------------------------------------------------------------------------------ quiet


class WaitingLines(logging.Handler):
    """Tells how long huggingface_hub waits before it tries again, and nothing else that it logs."""

    def __init__(self, say: Say):
        super().__init__()
        self.say = say

    def emit(self, record: logging.LogRecord) -> None:
        if waits := WAITS.search(record.getMessage()):
            self.say(f"the hub asks to wait: next try in {float(waits[1]):.0f} s")


@contextmanager
def quiet(say: Say) -> Iterator[None]:
    """Keep what huggingface_hub logs and warns of, which may repeat what a server sent, off the terminal; and its
    bars, where nobody looks at them."""
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    logger = logging.getLogger("huggingface_hub")
    before, passed_on, bars = logger.handlers, logger.propagate, not are_progress_bars_disabled()
    logger.handlers, logger.propagate = [WaitingLines(say)], False
    if bars and not sys.stderr.isatty():
        disable_progress_bars()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.handlers, logger.propagate = before, passed_on
        if bars and not sys.stderr.isatty():
            enable_progress_bars()


def silent(text: str) -> None:
    """Say nothing."""

