# shellcheck shell=bash
# The table of packages beside this file, for scripts that source this.
packages_table=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/packages.tsv

# debian-12, ubuntu-24.04; debian-forky where there is no number yet (testing and sid). CLIQUE_OS_RELEASE is for tests.
system_name() {
    (. "${CLIQUE_OS_RELEASE:-/etc/os-release}" && printf '%s-%s\n' "${ID:-unknown}" "${VERSION_ID:-${VERSION_CODENAME:-unknown}}") 2>/dev/null || echo unknown
}

packages_for() { # USE: the packages, one a line, each with the least version that will do ("mesa-opencl-icd>=24")
    awk -F '\t' -v use="$1" '!/^#/ && $1 == use { print $2 }' "$packages_table"
}

# Whether this system must have the package.
is_required() { # PACKAGE[>=VERSION]
    awk -F '\t' -v package="$1" -v here="$(system_name)" '
        !/^#/ && $2 == package { n = split($3, on, " "); for (i = 1; i <= n; i++) if (on[i] == "*" || on[i] == here) found = 1 }
        END { exit !found }' "$packages_table"
}

# Whether a version that apt or dpkg tells, "" if none, will do for the package.
suffices() { # PACKAGE[>=VERSION] VERSION
    [ -n "$2" ] && [ "$2" != "(none)" ] && { [[ $1 != *">="* ]] || dpkg --compare-versions "$2" ge "${1#*>=}"; }
}

# What the package depends on here and does not work with, by the table; nothing if there is no such package.
breaker_of() { # PACKAGE[>=VERSION]
    local breaker
    breaker=$(awk -F '\t' -v package="$1" '!/^#/ && $2 == package { print $5 }' "$packages_table")
    [ -z "$breaker" ] || LC_ALL=C apt-cache depends "${1%%>=*}" 2>/dev/null | sed -n "s/^ *Depends: \($breaker\)\$/\1/p" | head -n 1
}

is_installed() { # PACKAGE[>=VERSION]
    local status version
    IFS=$'\t' read -r status version < <(dpkg-query -W -f '${Status}\t${Version}\n' "${1%%>=*}" 2>/dev/null) || return 1
    [[ $status == *"ok installed" ]] && suffices "$1" "$version" && [ -z "$(breaker_of "$1")" ]
}

candidate_of() { # PACKAGE[>=VERSION]: the version that apt would install; nothing where it knows none
    LC_ALL=C apt-cache policy "${1%%>=*}" 2>/dev/null | sed -n 's/^ *Candidate: *//p' | head -n 1
}

# Whether apt can bring it.
is_known() { suffices "$1" "$(candidate_of "$1")" && [ -z "$(breaker_of "$1")" ]; } # PACKAGE[>=VERSION]

why_lacking() { # PACKAGE[>=VERSION]: in words, of a package that is not known
    local candidate breaker
    breaker=$(breaker_of "$1")
    if [ -n "$breaker" ]; then
        printf 'package %s depends on %s, with which it does not work (docs/driver-quirks.md)' "${1%%>=*}" "$breaker"
        return
    fi
    candidate=$(candidate_of "$1")
    case $candidate in
        "" | "(none)") printf 'no package %s' "${1%%>=*}" ;;
        *) printf 'package %s is %s, and %s or later is needed' "${1%%>=*}" "$candidate" "${1#*>=}" ;;
    esac
}
