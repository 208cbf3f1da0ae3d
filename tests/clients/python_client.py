"""Run with the Python of the generator: uses a client that openapi-python-client made, as a script would."""

import json
import sys
import time

sys.path.insert(0, sys.argv[1])
url, username, password, repository, destination = sys.argv[2:]

from generated import AuthenticatedClient, Client  # noqa: E402
from generated.api.backup import backup_status_api_backup_status_job_id_get as backup_status  # noqa: E402
from generated.api.backup import start_backup_api_backup_start_post as start_backup  # noqa: E402
from generated.api.login import log_in_api_auth_login_post as log_in  # noqa: E402
from generated.api.operations import list_operations_api_operations_get as list_operations  # noqa: E402
from generated.api.restore import start_restore_api_restore_start_post as start_restore  # noqa: E402
from generated.models import BackupStart, BodyLogInApiAuthLoginPost, RestoreRequest  # noqa: E402

login = log_in.sync(client=Client(url), body=BodyLogInApiAuthLoginPost(username=username, password=password))
client = AuthenticatedClient(url, token=login.access_token)
job = start_backup.sync(client=client, body=BackupStart(repository=repository)).job_id
while (status := backup_status.sync(job, client=client)).status in ("pending", "running"):
    time.sleep(0.2)
assert status.status == "completed", status.error_message
(found,) = [item for item in list_operations.sync(client=client, kind=["backup"], limit=10).items if item.id == job]
wanted = RestoreRequest(
    repository_id=found.repository_id, archive=found.archive_name, paths=[], destination=destination
)
print(json.dumps({"job": job, "kind": found.kind, "restore": start_restore.sync(client=client, body=wanted).job_id}))
