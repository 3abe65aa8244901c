"""`python -m tests.contract.shifted_extender --shift FILE OPTIONS`: the patient extender with a monotonic clock that a
test can set forward, so that a watch is silent for a minute and a half without a wait of as long.
"""

import pathlib

from tests.contract import shifted
from tests.e2e import patient_extender

if __name__ == "__main__":
    shifted.Shift(pathlib.Path(shifted.take_option(shifted.OPTION))).apply_to_ages()
    patient_extender.main()
