"""The `evenload` command: one module per subcommand, loaded only when it is asked for, so that --help stays quick."""
