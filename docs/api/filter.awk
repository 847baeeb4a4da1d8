# docs/api/filter: of the headers it first notes names, then writes the last one, `target`.

# Where a comment begins in a line of code; 0: nowhere. Literals are skipped.
function comment_at(line, from,    rest, at) {
    at = from
    rest = substr(line, from)
    while (match(rest, /\/\*|"([^"\\]|\\.)*"|\047([^\047\\]|\\.)+\047/)) {
        if (substr(rest, RSTART, 2) == "/*") return at + RSTART - 1
        at += RSTART + RLENGTH - 1
        rest = substr(rest, RSTART + RLENGTH)
    }
    return 0
}

# Names of Clique in a line, which is no comment.
function note(line) {
    while (match(line, /clq_[a-z0-9_]+/)) {
        known[substr(line, RSTART, RLENGTH)] = 1
        line = substr(line, RSTART + RLENGTH)
    }
}

# A line of a comment's text: what Doxygen would take for a command is escaped, and names become links.
function words(text,    out, before, name) {
    gsub(/[\\@&$#<>%]/, "\\\\&", text)
    out = ""
    while (match(text, /clq_[a-z0-9_]+/)) {
        name = substr(text, RSTART, RLENGTH)
        before = out substr(text, 1, RSTART - 1)
        out = before (name in known && before !~ /[A-Za-z0-9_]$/ ? "\\ref " name " \"" name "\"" : name)
        text = substr(text, RSTART + RLENGTH)
    }
    text = out text
    while (match(text, /`[^`]+`/))
        text = substr(text, 1, RSTART - 1) "<tt>" substr(text, RSTART + 1, RLENGTH - 2) "</tt>" substr(text, RSTART + RLENGTH)
    return text
}

# Whether a line of a comment is code: it is indented by four blanks more than text.
function is_code(line) { return line ~ /^ *\*     / }

# A line of a comment from its text on, with what closes the comment. `next_line`: the one below. The empty lines around code
# become what begins and ends it.
function text_line(line, next_line,    star, text, end, was) {
    was = verbatim
    star = match(line, /^ *\*( |$)/) ? RLENGTH : 0
    text = substr(line, star + 1)
    end = ""
    if (match(text, / *\*\/[ \t]*$/)) { end = substr(text, RSTART); text = substr(text, 1, RSTART - 1) }
    if (verbatim != (is_code(line) || text == "" && is_code(next_line))) {
        text = verbatim ? " \\endverbatim " words(text) : " \\verbatim " text
        verbatim = !verbatim
    } else if (!verbatim) text = words(text)
    if (end != "" && verbatim) text = text " \\endverbatim"
    line = substr(line, 1, star)
    if (verbatim || was) sub(/\*/, " ", line) # it would be verbatim, too
    return line text end
}

# Writes a comment from column `at` of line i on; how it begins becomes `open`. Its last line's number is returned.
function write_comment(i, at, open,    first, rest, mark) {
    verbatim = 0
    first = substr(lines[i], 1, at - 1)
    rest = substr(lines[i], at + 2)
    mark = ""
    if (i == 1 && sub(/^ clique\/[a-z]+\.h: */, "", rest)) mark = " \\file " included " "
    print first open mark text_line(rest, "")
    while (lines[i] !~ /\*\/[ \t]*$/ && i < count) { i++; print text_line(lines[i], lines[i + 1]) }
    return i
}

# The line in which a comment from line i, column `at` on ends; 0: code follows it.
function end_of(i, at,    rest) {
    rest = substr(lines[i], at + 2)
    while (!index(rest, "*/") && i < count) rest = lines[++i]
    return rest ~ /^([^*]|\*+[^*\/])*\**\*\/[ \t]*$/ ? i : 0
}

# Whether a comment that stands alone, from line i to `end`, tells of the header or of a declaration below it.
function is_in_front(i, end,    next_line) {
    next_line = end < count ? lines[end + 1] : ""
    return i == 1 || lines[i] !~ /\/\* (----|clang-format)/ && next_line ~ /[^ \t]/ && next_line !~ /^#[^d]/
}

# Whether a comment tells of what stands in front of it in its line: not of a block that begins there, or of a condition.
function is_behind(before) { return before !~ /\{[ \t]*$/ && before !~ /^#[^d]/ }

function write_line(i,    at, end, before) {
    at = in_macro ? 0 : comment_at(lines[i], 1)
    in_macro = lines[i] ~ /\\$/ && (in_macro || lines[i] ~ /^#define/)
    while (at && !in_macro) {
        end = end_of(i, at)
        before = substr(lines[i], 1, at - 1)
        if (end && (before ~ /[^ \t]/ ? is_behind(before) : is_in_front(i, end)))
            return write_comment(i, at, i > 1 && before ~ /[^ \t]/ ? "/**<" : "/**")
        if (!index(substr(lines[i], at + 2), "*/")) { # a plain one of several lines
            print lines[i]
            while (i < count && !index(lines[++i], "*/")) print lines[i]
            break
        }
        at = comment_at(lines[i], at + 1 + index(substr(lines[i], at + 2), "*/") + 1)
    }
    print lines[i]
    return i
}

FNR == 1 { inside = 0 }
FILENAME == target { lines[FNR] = $0; count = FNR }
{ # names, in what is no comment
    line = $0
    while (line != "") {
        if (inside) {
            at = index(line, "*/")
            if (!at) break
            line = substr(line, at + 2)
            inside = 0
        }
        at = comment_at(line, 1)
        note(at ? substr(line, 1, at - 1) : line)
        line = at ? substr(line, at + 2) : ""
        inside = at > 0
    }
}
END {
    included = target
    sub(/.*\/include\//, "", included)
    for (i = 1; i <= count; i++) i = write_line(i)
}
