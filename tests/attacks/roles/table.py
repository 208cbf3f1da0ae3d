"""The only list of who may call which route. A route without a row fails a test.

A row is a route, the least role its caller must have, and restrictions of the credential:

| least | |
|---|---|
| `public` | everyone, without a credential |
| `agent` | an agent, with its own credential |
| `anyone` | every user; responses contain only what the caller may see |
| `viewer`, `operator` | a user with this role on the repository; users without rights get 404, a lower role 403 |
| `admin` | an admin; users who may see the repository get 403, others 404 |
| `administrator` | an admin; every other user gets 403: the route does not concern a repository |

| credential | |
|---|---|
| (nothing) | a login or an account token; what the token may change depends on its scope |
| `login` | a login only |
| `reads` | changes nothing although its method could, so account tokens of every scope may call it |
"""

from dataclasses import dataclass

ROUTES = """
POST   /api/agents/register                                                     public
POST   /api/agents/unregister                                                   agent
POST   /api/agents/heartbeat                                                    agent
GET    /api/agents/jobs/poll                                                    agent
POST   /api/agents/calls/{call_id}/output                                       agent
POST   /api/agents/calls/{call_id}/confirm                                      agent
GET    /api/agents/jobs/{job_id}                                                agent
POST   /api/agents/jobs/{job_id}/claim                                          agent
POST   /api/agents/jobs/{job_id}/start                                          agent
POST   /api/agents/jobs/{job_id}/progress                                       agent
POST   /api/agents/jobs/{job_id}/logs                                           agent
POST   /api/agents/jobs/{job_id}/parts                                          agent
POST   /api/agents/jobs/{job_id}/complete                                       agent
POST   /api/agents/jobs/{job_id}/fail                                           agent
POST   /api/agents/jobs/{job_id}/canceled                                       agent
POST   /api/agents/jobs/{job_id}/cancel                                         agent
GET    /api/managed-machines/                                                   administrator
GET    /api/managed-machines/enrollment-tokens                                  administrator
POST   /api/managed-machines/enrollment-tokens                                  administrator login
POST   /api/managed-machines/enrollment-tokens/{token_id}/revoke                administrator
GET    /api/managed-machines/agents                                             administrator
GET    /api/managed-machines/agents/{agent}                                     administrator
PUT    /api/managed-machines/agents/{agent}                                     administrator
DELETE /api/managed-machines/agents/{agent}                                     administrator
POST   /api/managed-machines/agents/{agent}/disable                             administrator
POST   /api/managed-machines/agents/{agent}/diagnose                            administrator
POST   /api/managed-machines/agents/{agent}/enable                              administrator
POST   /api/managed-machines/agents/{agent}/revoke                              administrator
POST   /api/managed-machines/agents/{agent}/backup-jobs                         administrator login
GET    /api/managed-machines/agent-jobs                                         administrator
GET    /api/managed-machines/agent-jobs/{job_id}                                administrator
GET    /api/managed-machines/agent-jobs/{job_id}/logs                           administrator
POST   /api/managed-machines/agent-jobs/{job_id}/cancel                         operator      login
GET    /agent/install.sh                                                        public
GET    /agent/wheels/                                                           public
GET    /agent/wheels/{name}                                                     public
POST   /api/auth/login                                                          public
POST   /api/auth/login/totp                                                     public
POST   /api/auth/invitation                                                     public
POST   /api/auth/invitation/accept                                              public
POST   /api/auth/refresh                                                        anyone        login
GET    /api/auth/me                                                             anyone
POST   /api/auth/logout                                                         anyone        login
POST   /api/auth/change-password                                                anyone        login
POST   /api/auth/totp/setup                                                     anyone        login
POST   /api/auth/totp/enable                                                    anyone        login
POST   /api/auth/totp/disable                                                   anyone        login
GET    /api/users                                                               administrator
POST   /api/users                                                               administrator login
GET    /api/users/{user_id}                                                     administrator
PUT    /api/users/{user_id}                                                     administrator login
DELETE /api/users/{user_id}                                                     administrator login
POST   /api/users/{user_id}/invitation                                          administrator login
DELETE /api/users/{user_id}/invitation                                          administrator login
PUT    /api/users/{user_id}/repositories/{repository_id}                        administrator login
DELETE /api/users/{user_id}/repositories/{repository_id}                        administrator login
GET    /api/settings/tokens                                                     anyone
POST   /api/settings/tokens                                                     anyone        login
DELETE /api/settings/tokens/{token_id}                                          anyone        reads
GET    /api/audit                                                               administrator
GET    /api/audit/export                                                        administrator
GET    /api/notifications/destinations                                          administrator
POST   /api/notifications/destinations                                          administrator
GET    /api/notifications/destinations/{destination_id}                         administrator
PUT    /api/notifications/destinations/{destination_id}                         administrator
DELETE /api/notifications/destinations/{destination_id}                         administrator
POST   /api/notifications/destinations/{destination_id}/test                    administrator
GET    /api/notifications/rules                                                 administrator
POST   /api/notifications/rules                                                 administrator
PUT    /api/notifications/rules/{rule_id}                                       administrator
DELETE /api/notifications/rules/{rule_id}                                       administrator
GET    /api/notifications/reports                                               administrator
POST   /api/notifications/reports                                               administrator
PUT    /api/notifications/reports/{report_id}                                   administrator
DELETE /api/notifications/reports/{report_id}                                   administrator
GET    /api/notifications/deliveries                                            administrator
POST   /api/notifications/deliveries/{delivery_id}/retry                        administrator
GET    /api/ssh-connections                                                     administrator
POST   /api/ssh-connections                                                     administrator
GET    /api/ssh-connections/system-key                                          administrator
POST   /api/ssh-connections/system-key/rotate                                   administrator
GET    /api/ssh-connections/{connection_id}                                     administrator
PUT    /api/ssh-connections/{connection_id}                                     administrator
DELETE /api/ssh-connections/{connection_id}                                     administrator
POST   /api/ssh-connections/{connection_id}/test                                administrator
POST   /api/ssh-connections/{connection_id}/deploy-key                          administrator
POST   /api/ssh-connections/{connection_id}/host-key/accept                     administrator
POST   /api/filesystem/browse                                                   administrator
POST   /api/filesystem/estimate                                                 administrator
GET    /api/repositories/                                                       anyone
POST   /api/repositories/                                                       administrator
POST   /api/repositories/import                                                 administrator
POST   /api/repositories/probe                                                  administrator
GET    /api/repositories/{repository_id}                                        viewer
PUT    /api/repositories/{repository_id}                                        admin
DELETE /api/repositories/{repository_id}                                        admin
GET    /api/repositories/{repository_id}/access                                 admin
GET    /api/repositories/{repository_id}/key                                    admin         login
POST   /api/repositories/{repository_id}/break-lock                             operator      login
POST   /api/repositories/{repository_id}/setup                                  admin
POST   /api/repositories/{repository_id}/confirm-relocation                     admin
POST   /api/repositories/{repository_id}/confirm-older                          admin
POST   /api/repositories/{repository_id}/accept-replacement                     admin
POST   /api/backup/start                                                        operator      login
POST   /api/backup/run                                                          operator      login
GET    /api/backup/status/{job_id}                                              viewer        login
GET    /api/backup/jobs                                                         anyone        login
POST   /api/backup/jobs/{job_id}/retry                                          operator      login
GET    /api/backup/logs/{job_id}/stream                                         viewer        login
GET    /api/backup/logs/{job_id}/download                                       viewer        login
POST   /api/backup/cancel/{job_id}                                              operator      login
POST   /api/restore/start                                                       operator      login
POST   /api/restore/preview                                                     viewer        reads
GET    /api/restore/jobs                                                        anyone
GET    /api/restore-grants                                                      administrator
POST   /api/restore-grants                                                      administrator login
DELETE /api/restore-grants/{grant_id}                                           administrator login
GET    /api/restore/status/{job_id}                                             viewer
POST   /api/restore/cancel/{job_id}                                             operator      login
GET    /api/repositories/{repository_id}/archives/{archive_id}/files            viewer
GET    /api/repositories/{repository_id}/archives/{archive_id}/preview          viewer
GET    /api/repositories/{repository_id}/archives/{archive_id}/download         viewer
POST   /api/downloads                                                           viewer        reads
GET    /api/downloads/{ticket}                                                  public
GET    /api/agents/jobs/{job_id}/restore-stream                                 agent
POST   /api/repositories/{repository_id}/dump                                   operator      login
GET    /api/repositories/{repository_id}/databases                              operator
POST   /api/repositories/{repository_id}/databases                              admin         login
PUT    /api/repositories/{repository_id}/databases/{database_id}                admin         login
DELETE /api/repositories/{repository_id}/databases/{database_id}                admin         login
GET    /api/repositories/{repository_id}/services                               operator
PUT    /api/repositories/{repository_id}/services                               admin         login
POST   /api/repositories/{repository_id}/check                                  operator      login
POST   /api/repositories/{repository_id}/prune                                  operator      login
POST   /api/repositories/{repository_id}/compact                                operator      login
POST   /api/repositories/{repository_id}/restore-check                          operator      login
GET    /api/repositories/{repository_id}/deleted-archives                       viewer
POST   /api/repositories/{repository_id}/deleted-archives/{engine_id}/undelete  operator      login
GET    /api/repositories/check-jobs/{job_id}                                    viewer
GET    /api/repositories/{repository_id}/check-jobs                             viewer
GET    /api/repositories/prune-jobs/{job_id}                                    viewer
GET    /api/repositories/{repository_id}/prune-jobs                             viewer
GET    /api/repositories/compact-jobs/{job_id}                                  viewer
GET    /api/repositories/{repository_id}/compact-jobs                           viewer
GET    /api/repositories/restore-check-jobs/{job_id}                            viewer
GET    /api/repositories/{repository_id}/restore-check-jobs                     viewer
GET    /api/repositories/{repository_id}/delete-jobs                            viewer
DELETE /api/archives/{archive_id}                                               operator      login
GET    /api/archives/delete-jobs/{job_id}                                       viewer
POST   /api/repositories/{repository_id}/wipe-preview                           admin         login
POST   /api/repositories/{repository_id}/wipe                                   admin         login
GET    /api/repositories/{repository_id}/wipe-jobs/{job_id}                     viewer
POST   /api/repositories/{repository_id}/wipe-jobs/{job_id}/cancel              admin         login
GET    /api/packages/                                                           administrator
POST   /api/packages/                                                           administrator
PUT    /api/packages/{package_id}                                               administrator
DELETE /api/packages/{package_id}                                               administrator
POST   /api/packages/{package_id}/install                                       administrator       login
GET    /api/packages/jobs                                                       administrator
GET    /api/packages/jobs/{job_id}                                              administrator
GET    /api/scripts/                                                            anyone
POST   /api/scripts/                                                            administrator login
GET    /api/scripts/{script_id}                                                 anyone
PUT    /api/scripts/{script_id}                                                 administrator login
DELETE /api/scripts/{script_id}                                                 administrator
GET    /api/scripts/{script_id}/versions                                        administrator
POST   /api/scripts/{script_id}/run                                             anyone        login
GET    /api/rclone/providers                                                    administrator
GET    /api/rclone/remotes                                                      administrator
POST   /api/rclone/remotes                                                      administrator
GET    /api/rclone/remotes/{remote_id}                                          administrator
PUT    /api/rclone/remotes/{remote_id}                                          administrator
DELETE /api/rclone/remotes/{remote_id}                                          administrator
POST   /api/rclone/remotes/{remote_id}/test                                     administrator
GET    /api/repositories/{repository_id}/mirror                                 viewer
PUT    /api/repositories/{repository_id}/mirror                                 admin
DELETE /api/repositories/{repository_id}/mirror                                 admin
POST   /api/repositories/{repository_id}/mirror/sync                            operator      login
POST   /api/repositories/{repository_id}/mirror/hydrate                         admin         login
GET    /api/repositories/{repository_id}/archives                               viewer
GET    /api/repositories/{repository_id}/archives/live                          viewer
GET    /api/repositories/{repository_id}/archives/heatmap                       viewer
GET    /api/repositories/{repository_id}/archives/{archive_id}                  viewer
PUT    /api/repositories/{repository_id}/archives/{archive_id}                  operator      login
GET    /api/repositories/{repository_id}/status                                 viewer
POST   /api/repositories/{repository_id}/rebuild                                operator      login
POST   /api/repositories/{repository_id}/resync                                 operator      login
GET    /api/repositories/{repository_id}/archives/{archive_id}/changes          viewer
GET    /api/repositories/{repository_id}/history                                viewer
GET    /api/repositories/{repository_id}/lanes                                  viewer
POST   /api/repositories/{repository_id}/losses                                 viewer        reads
GET    /api/repositories/{repository_id}/retention/past                         viewer
POST   /api/repositories/{repository_id}/retention/simulate                     viewer        reads
GET    /api/repositories/{repository_id}/sizes                                  viewer
GET    /api/repositories/{repository_id}/search                                 viewer
GET    /api/repositories/{repository_id}/archives/{archive_id}/browse           viewer
GET    /api/v2/repositories/{repository_id}/archives/live                       viewer
GET    /api/archives/list                                                       viewer
GET    /api/search                                                              anyone
GET    /api/history                                                             anyone
GET    /api/schedules/                                                          anyone
POST   /api/schedules/                                                          operator
POST   /api/schedules/preview                                                   viewer        reads
GET    /api/schedules/calendar                                                  anyone
GET    /api/schedules/cron-presets                                              anyone
POST   /api/schedules/validate-cron                                             anyone        reads
GET    /api/schedules/upcoming-jobs                                             anyone
GET    /api/schedules/blackouts                                                 administrator
POST   /api/schedules/blackouts                                                 administrator
DELETE /api/schedules/blackouts/{blackout_id}                                   administrator
POST   /api/schedules/pause                                                     administrator
POST   /api/schedules/resume                                                    administrator
GET    /api/schedules/runs/{schedule_run_id}                                    viewer
POST   /api/schedules/runs/{schedule_run_id}/cancel                             operator      login
GET    /api/schedules/{schedule_id}                                             viewer
PUT    /api/schedules/{schedule_id}                                             operator
DELETE /api/schedules/{schedule_id}                                             operator
POST   /api/schedules/{schedule_id}/enable                                      operator
POST   /api/schedules/{schedule_id}/disable                                     operator
POST   /api/schedules/{schedule_id}/toggle                                      operator
POST   /api/schedules/{schedule_id}/snooze                                      operator
POST   /api/schedules/{schedule_id}/duplicate                                   operator
GET    /api/schedules/{schedule_id}/next                                        viewer
GET    /api/schedules/{schedule_id}/runs                                        viewer
POST   /api/schedules/{schedule_id}/run                                         operator      login
GET    /api/activity/recent                                                     anyone
GET    /api/activity/status                                                     anyone
GET    /api/overview                                                            anyone
GET    /api/overview/repositories                                               anyone
GET    /api/activity/{job_type}/{operation_id}/logs                             viewer
GET    /api/activity/{job_type}/{operation_id}/logs/download                    viewer
DELETE /api/activity/{job_type}/{operation_id}                                  admin
GET    /api/operations/                                                         anyone
GET    /api/operations/timeline                                                 anyone
GET    /api/operations/queue                                                    anyone
GET    /api/operations/repositories                                             anyone
GET    /api/operations/repositories/{repository_id}                             viewer
POST   /api/operations/reconcile                                                administrator
POST   /api/operations/pause                                                    administrator
POST   /api/operations/resume                                                   administrator
PUT    /api/operations/limits                                                   administrator
GET    /api/operations/{operation_id}                                           viewer
POST   /api/operations/{operation_id}/cancel                                    operator      login
POST   /api/operations/{operation_id}/retry                                     operator      login
GET    /api/operations/{operation_id}/logs                                      viewer
GET    /api/operations/{operation_id}/logs/download                             viewer
POST   /api/events/ticket                                                       anyone        reads
GET    /api/events/stream                                                       anyone
GET    /api/alarms                                                              anyone
GET    /api/alarms/settings                                                     administrator
PUT    /api/alarms/settings                                                     administrator
POST   /api/alarms/{alarm_id}/acknowledge                                       operator
GET    /metrics                                                                 administrator
GET    /api/system/info                                                         anyone
GET    /health/live                                                             public
GET    /health/ready                                                            public
"""


@dataclass(frozen=True)
class Row:
    least: str
    credential: str


def rows() -> dict[str, Row]:
    """The rows by the name of their route."""
    found = {}
    for line in ROUTES.strip().splitlines():
        method, path, least, *credential = line.split()
        found[f"{method} {path}"] = Row(least, *credential or [""])
    return found
