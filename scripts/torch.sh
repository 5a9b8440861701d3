# Sourced by the set-up scripts: installs torch for this machine into the environment of the given pip.
# A CPU build first from wherever pip is told to look, then from PyTorch's own index of CPU builds.
install_torch() {
    local pip=$1 version=2.13.0
    if command -v nvidia-smi >/dev/null; then
        "$pip" install -q "torch==$version"
    else
        "$pip" install -q "torch==$version+cpu" 2>/dev/null ||
            "$pip" install -q "torch==$version" --index-url https://download.pytorch.org/whl/cpu
    fi
}
