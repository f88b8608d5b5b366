"""`python -m creditscope`."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:  # `-m` searches the current folder first, where anybody's torch.py may lie: now last
        sys.path.append(sys.path.pop(0))

    from creditscope.cli import main

    main()
