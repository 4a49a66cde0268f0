"""How results are shown: tables, plots and one HTML page. Nothing here measures or decides anything."""
