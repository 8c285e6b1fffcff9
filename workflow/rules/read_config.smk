# Before Snakemake reads config.yaml: its own words about broken YAML have neither file nor line.
import sys
from pathlib import Path

HERE = Path(workflow.current_basedir.get_path_or_uri(secret_free=False)).parents[1]
sys.path.insert(0, str(HERE))

from sdcd.errors import InputError
from sdcd.experiments.configuration import read_yaml

try:
    for path in (HERE / "config.yaml", *workflow.overwrite_configfiles):
        # Others are JSON.
        if Path(path).suffix in (".yaml", ".yml"):
            read_yaml(path)
except InputError as error:
    sys.exit(f"Error: {error}")
