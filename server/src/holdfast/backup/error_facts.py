"""The errors of backups, one row each: docs/errors.md is made from them."""

from holdfast.errors import Fact

FACTS = (
    Fact(
        "backup.bad_archive_name", (422,), "The archive name is empty or not allowed.", "Choose another archive name."
    ),
    Fact(
        "backup.service_not_stopped",
        ("operation",),
        "A service that the backup stops could not be stopped.",
        "Read the message; the account that runs the engine needs the right to stop and start the unit.",
        "No archive was made. Services that were stopped already are started again.",
    ),
    Fact(
        "backup.service_refused",
        ("operation",),
        "The agent's machine does not let backups stop the service.",
        "Its owner adds the unit to `allow` in `[services]` of the agent's `config.toml`.",
        "Nothing was stopped, and no archive was made.",
    ),
    Fact("backup.service_twice", (422,), "A service is named twice.", "Name each service once."),
    Fact(
        "backup.service_unknown",
        ("operation",),
        "The machine has no such service.",
        "Correct the list of services of the repository.",
        "No archive was made. Services that were stopped already are started again.",
    ),
    Fact("backup.no_sources", (422,), "The repository has no source paths.", "Give it source paths first."),
    Fact(
        "backup.own_places",
        (422, "operation"),
        "The sources hold only the service's own data, which backups leave out.",
        "To back it up, an admin names it in the sources and confirms it.",
        "No archive was made.",
    ),
    Fact(
        "backup.own_places_unknown",
        (422, "operation"),
        "An ssh connection leads to the service's own machine, which has no Python to find the service's own data with.",
        "Install python3 and test the connection again, or run the engine without ssh.",
        "No archive was made.",
    ),
    Fact(
        "backup.sources_not_allowed",
        (
            403,
            "operation",
        ),
        "Only an admin may back up paths outside the repository's sources.",
        "Leave `source_paths` out, or name paths below the sources.",
        "No archive was made.",
    ),
    Fact(
        "backup.unknown_placeholder",
        (422,),
        "The archive name has an unknown placeholder.",
        "Use the placeholders in the API reference.",
    ),
    Fact("repository.source_not_absolute", (422,), "A source path is not absolute.", "Give absolute paths."),
    Fact(
        "backup.database_field_missing",
        (422,),
        "A field that this kind of database needs is not given.",
        "Give the field that the message names.",
    ),
    Fact(
        "backup.database_name_taken",
        (409,),
        "The repository has a database of this name already.",
        "Choose another name.",
    ),
    Fact(
        "backup.database_not_absolute", (422,), "The path of an SQLite file is not absolute.", "Give an absolute path."
    ),
    Fact(
        "backup.database_not_found",
        (404,),
        "There is no such database in this repository.",
        "List the databases of the repository.",
    ),
    Fact(
        "backup.dump_failed",
        ("operation",),
        "A database could not be dumped.",
        "Read the log; check the database's address and credentials.",
        "No archive was made of an incomplete dump.",
    ),
    Fact(
        "backup.dump_not_here",
        ("operation",),
        "The machine that is reached by ssh has no Python 3.9 or newer, which dumps need there.",
        "Install python3 on the machine and test the connection again, or install an agent on it.",
    ),
    Fact(
        "backup.dump_refused",
        ("operation",),
        "The agent's machine does not let the service dump this database.",
        "Name it under `[databases]` in the agent's `config.toml`, and restart the agent.",
        "Nothing was read, and no archive was made.",
    ),
    Fact(
        "backup.dump_unproven",
        ("operation",),
        "A dump could not be proven complete.",
        "Read the log, then start the backup again.",
        "No archive was made of an unproven dump.",
    ),
    Fact(
        "backup.no_databases",
        (
            422,
            "operation",
        ),
        "The repository has no databases to dump.",
        "Add a database first.",
    ),
    Fact(
        "backup.too_many_databases", (409,), "The repository has as many databases as are allowed.", "Remove one first."
    ),
)
