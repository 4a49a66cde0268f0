from gpubench.cli.commands import main

main()
