"""Writes an OCI layout as `docker save` would, with a health check, which OCI's format does not support.

docker_archive.py LAYOUT NAME:TAG SECONDS ARCHIVE; SECONDS is the date of every file.
"""

import gzip
import hashlib
import io
import json
import pathlib
import sys
import tarfile

PROGRAM = ["/usr/bin/wayleave", "--config", "/etc/wayleave/config.toml"]
SECOND = 10**9


def main(layout, name, date, archive):
    layout = pathlib.Path(layout)

    def blob(descriptor):
        return (layout / "blobs" / descriptor["digest"].replace(":", "/")).read_bytes()

    [described] = json.loads((layout / "index.json").read_text())["manifests"]
    manifest = json.loads(blob(described))
    config = json.loads(blob(manifest["config"]))
    config["config"]["Healthcheck"] = {
        "Test": ["CMD", *PROGRAM, "health"], "Interval": 10 * SECOND, "Timeout": 5 * SECOND}
    config = json.dumps(config, sort_keys=True).encode()
    files = {f"{digest}.tar": gzip.decompress(blob(layer)) for layer in manifest["layers"]
             for digest in [layer["digest"].split(":")[1]]}
    layers = list(files)
    place = f"{hashlib.sha256(config).hexdigest()}.json"
    files[place] = config
    files["manifest.json"] = json.dumps([{"Config": place, "RepoTags": [name], "Layers": layers}]).encode()
    with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as image:
        for path, data in files.items():
            member = tarfile.TarInfo(path)
            member.size, member.mtime = len(data), int(date)
            image.addfile(member, io.BytesIO(data))


if __name__ == "__main__":
    main(*sys.argv[1:])
