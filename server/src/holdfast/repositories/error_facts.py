"""The errors of repositories, one row each: docs/errors.md is made from them."""

from holdfast.errors import Fact

FACTS = (
    Fact(
        "archives.admins_only", (403,), "The path holds the service's own data and keys.", "Only an admin may read it."
    ),
    Fact("repository.agent_missing", (422,), "A repository of an agent needs `agent_machine_id`.", "Name the agent."),
    Fact(
        "repository.bad_address",
        (422,),
        "The address is not `ssh://user@host:port/path`.",
        "Correct it, or give an absolute path with `ssh_connection_id`.",
    ),
    Fact(
        "repository.connection_missing",
        (422,),
        "An engine on an ssh machine needs `ssh_connection_id`.",
        "Name the connection.",
    ),
    Fact(
        "repository.keyfile_on_agent",
        (422,),
        "The key of an agent's repository is stored on its machine.",
        "Put the key there.",
    ),
    Fact(
        "repository.keyfile_on_machine",
        (422,),
        "The key belongs on the machine that runs the engine.",
        "Put it into the folder that the message names.",
    ),
    Fact("repository.name_taken", (409,), "A repository has this name already.", "Choose another name."),
    Fact(
        "repository.no_key",
        (
            409,
            422,
        ),
        "The repository is not encrypted, so it has no key and no passphrase.",
        "Nothing needs to be done.",
    ),
    Fact(
        "repository.not_by_ssh", (422,), "A local repository has no ssh connection.", "Set `repository_type` to `ssh`."
    ),
    Fact(
        "repository.not_found",
        (
            404,
            "operation",
        ),
        "There is no such repository, or it is not visible to this user.",
        "List the repositories.",
    ),
    Fact(
        "repository.not_on_agent",
        (422,),
        "The repository does not belong to an agent.",
        "Choose a repository of an agent.",
    ),
    Fact(
        "repository.not_registered",
        (404,),
        "No repository is registered under this path.",
        "Import it, or correct the path.",
    ),
    Fact(
        "repository.not_set_up",
        (409,),
        "The agent could not set the repository up.",
        "Try again with `POST /api/repositories/{id}/setup`.",
    ),
    Fact(
        "repository.observe_only",
        (409,),
        "The repository is only observed; its mode allows no changes.",
        "Change its mode.",
    ),
    Fact(
        "repository.operation_running",
        (409,),
        "An operation of this repository is running.",
        "Wait for it, or cancel it first.",
    ),
    Fact(
        "repository.other_account",
        (422,),
        "The address names another account than the ssh connection.",
        "Correct one of them.",
    ),
    Fact(
        "repository.own_place_other_name",
        (422,),
        "A source leads to the service's own data under another name.",
        "Name it by its real path.",
    ),
    Fact(
        "repository.own_places_unconfirmed",
        (409,),
        "The sources hold the service's own data and keys.",
        "Send `own_places_confirmed: true`; only admins can then read them in archives.",
    ),
    Fact("repository.passphrase_on_agent", (422,), "The passphrase is stored on the agent.", "Set it there."),
    Fact(
        "repository.path_ambiguous",
        (409,),
        "Several machines have a repository under this path.",
        "Name the repository by its id.",
    ),
    Fact(
        "repository.path_not_absolute",
        (422,),
        "The path of a local repository is not absolute, or is the root folder.",
        "Give another absolute path.",
    ),
    Fact(
        "repository.path_taken",
        (409,),
        "A repository is registered under this path already.",
        "Use that one, or choose another path.",
    ),
    Fact(
        "repository.replaced",
        (
            422,
            "operation",
        ),
        "Another repository is stored at this place.",
        "Put the right one back, correct the path, or accept this one with accept-replacement.",
        "Nothing was read or written.",
    ),
    Fact(
        "repository.setup_not_needed",
        (409,),
        "The repository is set up, or is being set up.",
        "Nothing needs to be done.",
    ),
    Fact(
        "repository.unknown_account",
        (422,),
        "No ssh connection to this account exists.",
        "Add one first, and test it.",
    ),
    Fact("repository.unknown_agent", (422,), "There is no such agent.", "Enrol the agent first."),
    Fact(
        "repository.unsupported_target",
        (422,),
        "A repository cannot be at this kind of place.",
        "Choose one that the message names.",
    ),
    Fact("repository.value_missing", (422,), "A field cannot be null.", "Give the field a value."),
)
