"""Where a copy may go to: ssh and https, of plain parts, and nothing that git would run."""

import pytest

from holdfast.errors import GitFailed, InvalidValue
from holdfast.git.remotes import address_of
from holdfast.git.urls import check_branch, to_host_key, to_remote


@pytest.mark.parametrize(
    ("url", "host", "port", "is_ssh"),
    [
        ("git@github.com:me/copy.git", "github.com", 22, True),
        ("ssh://git@host.example/me/copy.git", "host.example", 22, True),
        ("ssh://git@host.example:2222/~me/copy", "host.example", 2222, True),
        ("ssh://[2001:db8::1]/copy", "2001:db8::1", 22, True),
        ("https://host.example/me/copy.git", "host.example", 443, False),
        ("https://host.example:8443/me/copy.git", "host.example", 8443, False),
    ],
)
def test_an_address_is_ssh_or_https(url, host, port, is_ssh):
    found = to_remote(url)
    assert (found.host, found.port, found.is_ssh) == (host, port, is_ssh)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/etc/passwd",
        "../elsewhere",
        "file:///srv/copy.git",
        "git://host/copy.git",
        "http://host/copy.git",
        "ext::sh -c touch% /tmp/x",
        "fd::3",
        "ssh::git@host:copy",
        "-oProxyCommand=touch /tmp/x",
        "--upload-pack=touch",
        "ssh://-oProxyCommand=x/copy",
        "ssh://git@-oProxyCommand=x/copy",
        "ssh://-x@host/copy",
        "-x@host:copy",
        "git@-host:copy",
        "git@host:-copy",
        "ssh://git@host/-copy",
        "git@host::copy",
        "https://me:secret@host/copy.git",
        "https://me@host/copy.git",
        "https://host/a/../../b",
        "ssh://git@host/a b",
        "ssh://git@host/a\nb",
        "ssh://git@host/$(touch x)",
        "ssh://git@host/`x`",
        "ssh://git@ho'st/x",
        "https://host:0/x",
        "https://host:99999/x",
        "https://hóst/x",
        "ssh://git@host/" + "x" * 2000,
    ],
)
def test_nothing_else_is_an_address_and_none_is_repeated(url):
    with pytest.raises(InvalidValue) as refused:
        to_remote(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("name", ["main", "holdfast/alice", "a.b-c_1"])
def test_a_branch_has_a_plain_name(name):
    assert check_branch(name) == name


@pytest.mark.parametrize(
    "name", ["", "-x", "a..b", "a b", "x.lock", "a/", "/a", "a//b", "+a", "a:b", "HEAD"]
)
def test_nothing_else_is_a_branch(name):
    with pytest.raises(InvalidValue):
        check_branch(name)


@pytest.mark.parametrize(
    "url", ["ssh://git@127.0.0.1/x", "git@localhost:x", "https://[::1]/x", "ssh://10.0.0.1/x"]
)
def test_private_addresses_are_refused_unless_they_are_allowed(url):
    with pytest.raises(GitFailed, match=r"git host-keys failed: .* public"):
        address_of(to_remote(url), "host-keys", allows_private=False)
    assert address_of(to_remote(url), "host-keys", allows_private=True)


@pytest.mark.parametrize(
    "line", ["", "ssh-ed25519", "ssh-ed25519 !!!", "rsa AAAA", "* ssh-rsa AAAA"]
)
def test_what_is_no_host_key_is_refused(line):
    with pytest.raises(InvalidValue):
        to_host_key(line)
