// Logs in, backs a repository up, finds the job by a filter and asks for a restore: all by the generated types.
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const [baseUrl, username, password, repository, destination] = process.argv.slice(2);
const anonymous = createClient<paths>({ baseUrl });
const login = await anonymous.POST("/api/auth/login", {
  body: { username, password },
  headers: { "Content-Type": "application/x-www-form-urlencoded" },
  bodySerializer: (body) => new URLSearchParams(body as Record<string, string>),
});
const token = login.data?.access_token;
if (!token) throw new Error(`no token: ${JSON.stringify(login.error)}`);
const client = createClient<paths>({ baseUrl, headers: { "X-Backup-Authorization": `Bearer ${token}` } });

const started = await client.POST("/api/backup/start", { body: { repository } });
const job = started.data?.job_id;
if (job === undefined) throw new Error(`no job: ${JSON.stringify(started.error)}`);

for (;;) {
  const status = await client.GET("/api/backup/status/{job_id}", { params: { path: { job_id: job } } });
  if (status.data?.status === "completed") break;
  if (status.data?.status === "failed") throw new Error(String(status.data.error_message));
  await new Promise((resolve) => setTimeout(resolve, 200));
}
const list = await client.GET("/api/operations/", { params: { query: { "kind[]": ["backup"], limit: 10 } } });
const found = list.data?.items.find((item) => item.id === job);
const restore = await client.POST("/api/restore/start", {
  body: { repository_id: found?.repository_id, archive: found?.archive_name ?? "", paths: [], destination },
});
console.log(JSON.stringify({ job, kind: found?.kind, restore: restore.data?.job_id }));
