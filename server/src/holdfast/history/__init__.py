"""File history: every file of every indexed archive of a repository, derived from the engine's archives.

The interface, by module:

- `index.HistoryIndex(store)`: ingest_listing, ingest_chunks, remove, sweep, forget; archives, stats, changes,
  path_history, file_history, browse, search, entries, damage; `generation` identifies an index.
- `sqlite.SqliteStore.create(file)` / `SqliteStore(file)`; `postgres.PostgresStore.create(pool, schema)` /
  `PostgresStore(pool, schema)`: where an index is stored.
- `listing.listing_arguments`, `listing.ENVIRONMENT`, `listing.Listing(output, wait)`: the CLI route.
- `chunks.route.RouteChooser(verdicts).choose(program, version)`: the route to use, and why.
- `chunks.metadata_chunks.EngineChunks(program, repository, environment=…)`: the chunk route's source for
  `ingest_chunks`.
- `excludes.Excludes(patterns)`: the files that history leaves out, passed to both ingests.
- `entry.Entry`: a file of an archive; `answers.unchanged(before, after)`: whether a file is unchanged between two
  entries, as far as the routes that read them can tell.
- `errors`: everything that can go wrong, each named for the fact.

Paths are bytes everywhere. Archives are identified by the engine's id. The caller knows their times, series and names.
An ingest is CPU-bound Python: next to a busy API, run it in a separate process, or lower `sys.setswitchinterval`.
"""
