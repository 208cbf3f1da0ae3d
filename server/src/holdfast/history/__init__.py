"""File history: every file of every indexed archive of a repository, derived from the engine's archives.

The surface, by module:

- `index.HistoryIndex(store)`: ingest_listing, ingest_chunks, remove, sweep, forget; archives, stats, changes,
  path_history, file_history, browse, search, entries, damage; `generation` tells one index from another.
- `sqlite.SqliteStore.create(file)` / `SqliteStore(file)`; `postgres.PostgresStore.create(pool, schema)` /
  `PostgresStore(pool, schema)`: where an index is kept.
- `listing.listing_arguments`, `listing.ENVIRONMENT`, `listing.Listing(output, wait)`: the CLI route.
- `chunks.route.RouteChooser(verdicts).choose(program, version)`: which route, and why.
- `chunks.metadata_chunks.EngineChunks(program, repository, environment=…)`: the chunk route's source for
  `ingest_chunks`.
- `excludes.Excludes(patterns)`: what history leaves out, given to both ingests.
- `entry.Entry`: a file of an archive; `presence.unchanged(before, after)`: whether two of them are the same file
  unchanged, as far as the routes that read them can tell.
- `errors`: everything that can go wrong, each named for the fact.

Paths are bytes everywhere. Archives are named by the engine's id. Time, series and names of archives are the caller's
knowledge. An ingest is CPU-bound Python: beside a busy API run it in a process of its own, or lower
`sys.setswitchinterval`.
"""
