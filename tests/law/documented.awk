# Lists declarations without a comment (documented). Code is read with comments and literals taken out; `above` is the number of the
# line in which a comment ended that stood alone.
function fault(text) { print FILENAME ":" first ": " text " has no comment"; wrong++ }
function name_of(text, found) { # of a declaration
    if (text ~ /^#/) { split(text, found, /[ (\t]+/); return found[2] }
    if (match(text, /^enum *\{ *[A-Za-z0-9_]+/)) { sub(/^enum *\{ */, "", text); sub(/[^A-Za-z0-9_].*/, "", text); return text }
    if (text ~ /^typedef/ && match(text, /[a-z0-9_]+ *;$/)) { sub(/ *;$/, "", text); sub(/.*[^A-Za-z0-9_]/, "", text); return text }
    if (match(text, /\(\*[a-z0-9_]+/)) return substr(text, RSTART + 2, RLENGTH - 2)
    match(text, /[a-z0-9_]+\(/)
    return RSTART ? substr(text, RSTART, RLENGTH - 1) : text
}
function ended() { # a declaration, whose text is in `code`
    declarations++
    if (!has) fault(name_of(code))
    code = ""
    has = 0
}
# The line without comments and literals; sets `alone` (a comment and nothing else) and `commented` (there is one).
function bare(line,    out, at) {
    out = ""
    commented = inside
    while (line != "") {
        if (inside) {
            at = index(line, "*/")
            if (!at) return out
            line = substr(line, at + 2)
            inside = 0
        } else if (match(line, /\/\*|"([^"\\]|\\.)*"|\047([^\047\\]|\\.)+\047/)) {
            out = out substr(line, 1, RSTART - 1)
            if (substr(line, RSTART, 2) == "/*") { inside = commented = 1; line = substr(line, RSTART + 2) }
            else { out = out "\"\""; line = substr(line, RSTART + RLENGTH) }
        } else { out = out line; line = "" }
    }
    return out
}
FNR == 1 {
    depth = inside = 0
    above = -1
    code = macro = ""
    delete undefined
    while ((getline line < FILENAME) > 0)
        if (line ~ /^#undef/) { split(line, words, " "); undefined[words[2]] = 1 }
    close(FILENAME)
}
{
    text = bare($0)
    sub(/[ \t]+$/, "", text)
    stripped = text
    sub(/^[ \t]+/, "", stripped)
    if (macro) { macro = text ~ /\\$/; next } # the rest of a macro
    if (stripped == "") { if (commented && code == "" && $0 !~ /^\/\* (clang-format|----) /) above = FNR; if (code != "" && commented && (depth == 0 || code ~ /^enum/)) has = 1; next }
    if (text ~ /^#/) {
        macro = text ~ /\\$/
        if (code == "" && text ~ /^#define/) {
            first = FNR
            has = commented || above == FNR - 1
            code = text
            if (name_of(text) !~ /^CLQ_/ || name_of(text) == "CLQ_API" || name_of(text) in undefined) code = ""
            else ended()
        }
        next
    }
    if (stripped ~ /^extern ""/) { next } # and the brace that closes it
    if (code == "" && stripped == "}") next
    if (code == "") { first = FNR; has = above == FNR - 1; code = stripped }
    else code = code " " stripped
    opens = gsub(/\{/, "{", stripped); closes = gsub(/\}/, "}", stripped)
    # Behind its only or last line, in its first, or on each value of an enumeration without a name.
    if (commented && (depth == 0 || depth + opens - closes == 0 || code ~ /^enum/)) has = 1
    depth += opens - closes
    if (depth == 0 && (stripped ~ /;$/ || (closes && code ~ /\) *\{/))) ended()
}
END {
    if (!declarations) { print "no declarations were found"; exit 1 }
    print (wrong ? wrong " of " : "all ") declarations " declarations have " (wrong ? "no" : "a") " comment"
    exit wrong > 0
}
