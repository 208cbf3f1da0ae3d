"""The command line of BorgBackup 2, in the betas that `features.BETAS` names: one file for each command."""
