"""A hub on loopback, kept in memory: the parts of the hub's HTTP API that huggingface_hub asks when a model is pushed,
listed and fetched. Trees are of commits; large files are stored by their SHA-256, small ones by git's hash.

A test may let it answer badly: `plan` has functions (method, path) -> an answer, or None for the usual one.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "hf_loopbackOnlySecretToken0123456789"
LARGE = 4096                               # bytes from which a file is large here


@dataclass
class Answer:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(value, status=200, **headers):
        return Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json", **headers})

    @staticmethod
    def error(status, code="", message="no"):
        """As the hub does it, and worse: it sends back the token that it was sent."""
        told = f"{message} Bearer {TOKEN}"
        return Answer.of({"error": told}, status, **{"X-Error-Message": told, "X-HF-Warning": f"auth; {told}",
                                                     **({"X-Error-Code": code} if code else {})})


@dataclass
class Repository:
    private: bool = False
    gated: bool = False
    commits: list[tuple[str, dict[str, bytes]]] = field(default_factory=list)
    branches: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def add(self, branch: str, tree: dict[str, bytes], message: str) -> str:
        names = json.dumps([sorted((name, hashlib.sha256(data).hexdigest()) for name, data in tree.items()),
                            len(self.commits)])
        commit = hashlib.sha1(names.encode()).hexdigest()
        self.commits.append((commit, dict(tree)))
        self.branches[branch] = commit
        self.messages.append(message)
        return commit

    def tree(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        commit = self.branches.get(revision, revision)
        return next((each for each in self.commits if each[0] == commit), None)


def git_hash(data: bytes) -> str:
    return hashlib.sha1(b"blob " + str(len(data)).encode() + b"\0" + data).hexdigest()


def known_by(data: bytes) -> str:
    """The hash by which the hub knows a file."""
    return hashlib.sha256(data).hexdigest() if len(data) >= LARGE else git_hash(data)


class HubServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories: dict[str, Repository] = {}
        self.large: dict[str, bytes] = {}
        self.asked: list[tuple[str, str]] = []
        self.tokens: list[str] = []
        self.plan: Callable[[str, str], Answer | None] = lambda method, path: None
        self.thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def put(self, name: str, files: dict[str, bytes], **options) -> Repository:
        """A repository as somebody else made it."""
        repository = self.repositories.setdefault(name, Repository(**options))
        repository.add("main", files, "made")
        return repository

    def files(self, name: str, revision: str = "main") -> dict[str, bytes]:
        return self.repositories[name].tree(revision)[1]

    def close(self):
        self.shutdown()
        self.server_close()
        self.thread.join()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize, disable_nagle_algorithm = 1 << 16, True                    # an answer in one packet
    server: HubServer

    def log_message(self, *_):
        pass

    def answer(self):
        split = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, split.path))
        self.server.tokens.append(self.headers.get("Authorization", ""))
        planned = self.server.plan(self.command, unquote(split.path))
        found = planned or self.route(unquote(split.path), split.path, parse_qs(split.query), body)
        self.send_response(found.status)
        for name, value in {"Content-Length": str(len(found.body)), **found.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(found.body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer

    # ------------------------------------------------------------------------------------------ routes

    def route(self, path, raw, query, body):
        if path == "/api/repos/create":
            return self.create(json.loads(body))
        if path == "/api/validate-yaml":
            return Answer.of({"errors": [], "warnings": []})
        if found := re.fullmatch(r"/(\w[\w.-]*/[\w.-]+)\.git/info/lfs/objects/batch", path):
            return self.with_repository(found[1], lambda repo: self.batch(json.loads(body)), write=True)
        if found := re.fullmatch(r"/large/(\w+)", path):
            self.server.large[found[1]] = body
            return Answer() if hashlib.sha256(body).hexdigest() == found[1] else Answer.error(400)
        if found := re.fullmatch(r"/api/models/(\w[\w.-]*/[\w.-]+)(?:/(\w+)/(.+))?", raw):
            name, what, revision = found[1], found[2] or "revision", unquote(found[3] or "main")
            acts = {"revision": lambda repo: self.info(name, repo, revision),
                    "preupload": lambda repo: self.preupload(repo, revision, json.loads(body)),
                    "commit": lambda repo: self.commit(name, repo, revision, body),
                    "branch": lambda repo: self.branch(repo, revision)}
            return self.with_repository(name, acts[what], write=what != "revision")
        if found := re.fullmatch(r"/(\w[\w.-]*/[\w.-]+)/resolve/([^/]+)/(.+)", raw):
            return self.with_repository(found[1], lambda repo: self.resolve(repo, unquote(found[2]),
                                                                            unquote(found[3])), write=False)
        return Answer.error(404)

    @property
    def known(self):
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def with_repository(self, name, act, write):
        repository = self.server.repositories.get(name)
        if write and not self.known:
            return Answer.error(401, message="Invalid credentials in Authorization header")
        if repository is None or (repository.private and not self.known):
            return Answer.error(404 if self.known else 401, "RepoNotFound", "Repository not found")
        if repository.gated and not write:
            return Answer.error(403, "GatedRepo", "Access is restricted")
        return act(repository)

    def create(self, asked):
        if not self.known:
            return Answer.error(401, message="Invalid credentials in Authorization header")
        name = f"{asked['organization']}/{asked['name']}"
        url = {"url": f"{self.server.url}/{name}"}
        if name in self.server.repositories:
            return Answer.of({**url, "error": "You already created this model repo"}, 409)
        self.server.put(name, {".gitattributes": b"*.safetensors filter=lfs\n"},
                        private=asked.get("visibility") == "private")
        return Answer.of(url)

    def info(self, name, repository, revision):
        found = repository.tree(revision)
        if found is None:
            return Answer.error(404, "RevisionNotFound", "Invalid rev id")
        listed = []
        for path, data in sorted(found[1].items()):
            row = {"rfilename": path, "size": len(data), "blobId": git_hash(data)}
            if len(data) >= LARGE:
                row["lfs"] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "pointerSize": 130}
            listed.append(row)
        return Answer.of({"id": name, "sha": found[0], "private": repository.private, "siblings": listed})

    def preupload(self, repository, revision, asked):
        found = repository.tree(revision)
        tree = found[1] if found else {}
        return Answer.of({"files": [
            {"path": each["path"], "uploadMode": "lfs" if each["size"] >= LARGE else "regular", "shouldIgnore": False,
             "oid": known_by(tree[each["path"]]) if each["path"] in tree else None}
            for each in asked["files"]]})

    def batch(self, asked):
        return Answer.of({"transfer": "basic", "objects": [
            {"oid": each["oid"], "size": each["size"], **({} if each["oid"] in self.server.large else {
                "actions": {"upload": {"href": f"{self.server.url}/large/{each['oid']}"}}})}
            for each in asked["objects"]]})

    def commit(self, name, repository, branch, body):
        lines = [json.loads(line) for line in body.splitlines()]
        header, found = lines[0]["value"], repository.tree(branch)
        if found is None:
            return Answer.error(404, "RevisionNotFound", "Invalid rev id")
        if header.get("parentCommit", found[0]) != found[0]:
            return Answer.error(412, message="A commit has happened since")
        tree = dict(found[1])
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "file":
                tree[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                tree[value["path"]] = self.server.large[value["oid"]]
            elif line["key"] == "deletedFile":
                del tree[value["path"]]
        commit = repository.add(branch, tree, header["summary"])
        return Answer.of({"commitUrl": f"{self.server.url}/{name}/commit/{commit}", "commitOid": commit,
                          "hookOutput": "", "success": True})

    def branch(self, repository, branch):
        if branch in repository.branches:
            return Answer.error(409, message="Reference already exists")
        repository.branches[branch] = repository.branches["main"]
        return Answer.of({})

    def resolve(self, repository, revision, path):
        found = repository.tree(revision)
        if found is None or path not in found[1]:
            return Answer.error(404, "EntryNotFound" if found else "RevisionNotFound", "Entry not found")
        data = found[1][path]
        return Answer(200, data, {"ETag": f'"{known_by(data)}"', "X-Repo-Commit": found[0], "Accept-Ranges": "bytes",
                                  "Content-Disposition": f'inline; filename="{path.rpartition("/")[2]}"'})
