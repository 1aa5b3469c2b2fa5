"""Plans for machines that aren't there: what runs where, what it takes, how fast it should be.

    python examples/plan_a_machine.py [MODEL]

MODEL is a GGUF file, ``org/repo:QUANT`` on Hugging Face, or (by default) ``tiny``. Only the file's
header is read.
"""

from __future__ import annotations

import sys

import unladen

MACHINES = ("24GB:1000GBs", "2x12GB:400GBs", "8GB:300GBs:12GBs")


def main(path: str = "tiny") -> None:
    for machine in MACHINES:
        report = unladen.plan(path, pretend=machine, context_size=512)
        print(f"{machine}: {'fits' if report.fits() else 'too small'}, "
              f"{report.decode.per_second:.0f} tokens a second predicted")
        for device in report.devices:
            print(f"  {device.device.name}: {report.layers_on(device.device.name)} layers, "
                  f"{report.left[device.device.name] / 1e9:.1f} GB left")


if __name__ == "__main__":
    main(*sys.argv[1:])
