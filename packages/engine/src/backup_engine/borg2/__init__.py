"""The command line of BorgBackup 2, for the betas listed in `features.BETAS`: one module per command."""
