"""The errors of ssh machines, one row each: docs/errors.md is made from them."""

from holdfast.errors import Fact

FACTS = (
    Fact("ssh.account_taken", (409,), "There is an ssh connection to this account already.", "Use that connection."),
    Fact(
        "ssh.closed",
        (
            422,
            "operation",
        ),
        "The host closed the connection.",
        "Look at the log of its sshd.",
    ),
    Fact(
        "ssh.connection_refused",
        (
            422,
            "operation",
        ),
        "Nothing listens on this port of the host.",
        "Start sshd there, or correct the port.",
    ),
    Fact(
        "ssh.deploy_failed", (422,), "The key could not be written to the host.", "Add it to `authorized_keys` by hand."
    ),
    Fact(
        "ssh.disk_unknown",
        ("test",),
        "The free space of the path could not be read.",
        "Check that the path exists and may be read.",
    ),
    Fact(
        "ssh.engine_missing",
        ("test",),
        "The machine has no engine.",
        "Install BorgBackup 1.2 or newer there, or set its path.",
    ),
    Fact(
        "ssh.engine_unsupported",
        ("test",),
        "The engine on the machine is too old, or not BorgBackup.",
        "Install BorgBackup 1.2 or newer.",
    ),
    Fact(
        "ssh.failed",
        (
            422,
            "operation",
        ),
        "The ssh connection failed.",
        "Look at the log of the host's sshd.",
    ),
    Fact(
        "ssh.host_key_changed",
        (
            422,
            "operation",
        ),
        "The host shows another key than the one that is pinned.",
        "Find out why; accept the new key only if it is right.",
        "Nothing was sent to the host.",
    ),
    Fact(
        "ssh.host_unknown",
        (
            422,
            "operation",
        ),
        "The name of the host cannot be resolved.",
        "Correct the host, or the name service.",
    ),
    Fact("ssh.in_use", (409,), "Repositories use this connection.", "Forget them first."),
    Fact(
        "ssh.key_refused",
        (
            422,
            "operation",
        ),
        "The host does not accept the service's key for this user.",
        "Deploy the key, or correct the user.",
    ),
    Fact("ssh.name_taken", (409,), "An ssh connection has this name already.", "Choose another name."),
    Fact(
        "ssh.no_answer",
        (
            422,
            "operation",
        ),
        "The host does not answer.",
        "Check that it is up, the network, and firewalls.",
    ),
    Fact(
        "ssh.no_commands",
        ("test",),
        "The account may not run commands.",
        "Use it to hold repositories; to run the engine, allow commands.",
    ),
    Fact("ssh.no_host_key", (422,), "The host shows no key that can be pinned.", "Look at the log of its sshd."),
    Fact("ssh.not_found", (404,), "There is no such ssh connection.", "List the connections."),
    Fact(
        "ssh.not_installed",
        (
            422,
            "operation",
        ),
        "ssh and ssh-keyscan are not installed on the service's machine.",
        "Install openssh-client.",
    ),
    Fact(
        "ssh.not_ssh",
        (
            422,
            "operation",
        ),
        "The program on this port is not an ssh server.",
        "Correct the port.",
    ),
    Fact(
        "ssh.shut_out",
        (422, "operation"),
        "The host refuses the service's machine for some minutes, because logins from it have failed.",
        "Wait, then try again. `PerSourcePenalties` in the host's `sshd_config` sets for how long.",
    ),
    Fact(
        "ssh.other_fingerprint",
        (409,),
        "The host shows another key than the one you accept.",
        "Compare the fingerprints again.",
    ),
    Fact(
        "ssh.password_refused",
        (422,),
        "The host does not accept this user and password.",
        "Correct them, or add the key by hand.",
    ),
    Fact(
        "ssh.python_missing",
        (
            "test",
            "operation",
        ),
        "The machine has no Python 3.9 or newer.",
        "Install Python there.",
    ),
    Fact("ssh.value_missing", (422,), "A field cannot be null.", "Give the field a value."),
    Fact(
        "repository.unknown_connection",
        (422,),
        "There is no such ssh connection.",
        "Add the connection first, and test it.",
    ),
    Fact(
        "filesystem.bad_path",
        (422,),
        "The path is not absolute, or is given twice.",
        "Give either `path` or `path_b64`, absolute.",
    ),
    Fact(
        "filesystem.machine_unclear",
        (422,),
        "The request does not identify one machine.",
        "Give `machine_id` for an ssh machine or an agent, none for the service's own.",
    ),
    Fact(
        "filesystem.not_answered",
        (422,),
        "The machine did not answer.",
        "Test the connection; the message has the machine's answer.",
    ),
    Fact("filesystem.python_missing", (422,), "The machine has no Python 3.9 or newer.", "Install Python there."),
    Fact("filesystem.unreadable", (422,), "The folder cannot be read.", "Check that it exists and may be read."),
)
