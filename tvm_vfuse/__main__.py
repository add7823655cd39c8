"""``python -m tvm_vfuse`` is the ``tvm-vfuse`` command."""

from tvm_vfuse.cli import main

if __name__ == "__main__":
    main()
