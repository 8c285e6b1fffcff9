"""Write a tiny untrained AVICI checkpoint; run by the interpreter of AVICI's environment."""

import json
import pickle
import sys
from pathlib import Path

import jax
from avici.backbone import ModelState
from avici.model import BaseModel, InferenceModel

KWARGS = {"layers": 1, "dim": 8, "key_size": 4, "num_heads": 2}


def main(folder):
    folder = Path(folder)
    folder.mkdir(parents=True)
    model = InferenceModel(model_class=BaseModel, model_kwargs=KWARGS)
    x = jax.random.normal(jax.random.PRNGKey(0), (20, 3, 2))
    params = model.net.init(jax.random.PRNGKey(1), x, False)
    fields = dict.fromkeys(ModelState._fields)
    state = ModelState(**{**fields, "step": 0, "params": params})
    (folder / "tiny.pkl").write_bytes(pickle.dumps(state))
    kwargs = {"inference_model_kwargs": {}, "neural_net_kwargs": KWARGS}
    (folder / "kwargs.json").write_text(json.dumps(kwargs))


if __name__ == "__main__":
    main(sys.argv[1])
