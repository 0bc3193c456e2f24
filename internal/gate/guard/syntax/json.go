package syntax

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// commented matches the names of JSON files whose readers accept comments and commas before brackets.
var commented = regexp.MustCompile(`(?i)^([tj]sconfig.*|.*\.(code-workspace|code-snippets)|\.?(eslintrc|babelrc|swcrc|jshintrc|jscsrc|jslintrc|oxlintrc|stylelintrc|mocharc|devcontainer|markdownlint.*)|launch|settings|tasks|extensions|keybindings|c_cpp_properties|api-extractor.*|turbo|deno|biome|wrangler|renovate|default|nx|project|rush|command-line|version-policies|typedoc|lerna|language-configuration|angular|appsettings.*|local\.settings|launchSettings|global|\..*)\.jsonc?$|.*\.jsonc$`)

// parseJSON checks one JSON value. Where comments are customary, they are allowed.
func parseJSON(p string, content []byte) *problem {
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	if len(bytes.TrimSpace(content)) == 0 {
		return &problem{rule: RuleInvalid, text: "it is empty", doubtful: true}
	}
	bad := syntaxError(content)
	if bad == nil {
		return duplicateInJSON(content)
	}
	plain := withoutComments(content)
	if syntaxError(plain) == nil {
		if commented.MatchString(path.Base(p)) || strings.HasSuffix(p, ".jsonc") {
			return duplicateInJSON(plain)
		}
		bad.doubtful = !strictNames[path.Base(p)]
		return bad
	}
	if bytes.ContainsRune(content, '\n') && eachLine(content) {
		bad.doubtful = true
	}
	return bad
}

// strictNames are files whose readers accept only JSON.
var strictNames = map[string]bool{
	"package.json": true, "package-lock.json": true, "composer.json": true, "composer.lock": true, "bower.json": true, "manifest.json": true, "Pipfile.lock": true,
}

func syntaxError(content []byte) *problem {
	var v json.RawMessage
	err := json.Unmarshal(content, &v)
	if err == nil {
		return nil
	}
	var at *json.SyntaxError
	if !errors.As(err, &at) {
		return invalid(0, err.Error())
	}
	if strings.Contains(at.Error(), "max depth") {
		return tooDeep
	}
	return invalid(bytes.Count(content[:min(int(at.Offset), len(content))], []byte{'\n'})+1, at.Error())
}

// eachLine reports whether each line is a JSON value, which some readers accept.
func eachLine(content []byte) bool {
	for line := range bytes.Lines(content) {
		if line = bytes.TrimSpace(line); len(line) > 0 && !json.Valid(line) {
			return false
		}
	}
	return true
}

// withoutComments replaces comments, and commas before a closing bracket, with spaces.
func withoutComments(content []byte) []byte {
	out := bytes.Clone(content)
	comma := -1 // a comma after which there was nothing but white space and comments
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			i = endOfString(out, i)
			comma = -1
		case c == '/' && i+1 < len(out) && out[i+1] == '/':
			for ; i < len(out) && out[i] != '\n'; i++ {
				out[i] = ' '
			}
		case c == '/' && i+1 < len(out) && out[i+1] == '*':
			end := bytes.Index(out[i+2:], []byte("*/"))
			if end < 0 {
				return out
			}
			for k := i; k < i+2+end+2; k++ {
				if out[k] != '\n' {
					out[k] = ' '
				}
			}
			i += end + 3
		case c == ',':
			comma = i
		case (c == '}' || c == ']') && comma >= 0:
			out[comma], comma = ' ', -1
		case c != ' ' && c != '\t' && c != '\n' && c != '\r':
			comma = -1
		}
	}
	return out
}

// endOfString returns the quote that ends the string which begins at i, or the end.
func endOfString(text []byte, i int) int {
	for k := i + 1; k < len(text); k++ {
		switch text[k] {
		case '\\':
			k++
		case '"':
			return k
		}
	}
	return len(text)
}

// duplicateInJSON finds a key that an object of a valid text has twice.
func duplicateInJSON(content []byte) *problem {
	var stack []map[string]bool // of each open bracket; nil for a list
	key := false                // a string here is a key
	for i := 0; i < len(content); i++ {
		switch content[i] {
		case '{':
			stack, key = append(stack, map[string]bool{}), true
		case '[':
			stack, key = append(stack, nil), false
		case '}', ']':
			if len(stack) > 0 {
				stack = stack[:len(stack)-1]
			}
			key = false
		case ',':
			key = len(stack) > 0 && stack[len(stack)-1] != nil
		case '"':
			end := endOfString(content, i)
			if key && end < len(content) {
				k, keys := string(content[i+1:end]), stack[len(stack)-1]
				if keys[k] {
					return &problem{
						rule: RuleDuplicateKey, line: bytes.Count(content[:i], []byte{'\n'}) + 1,
						text: fmt.Sprintf("the key %q occurs twice in an object", clip(k)), doubtful: strings.HasPrefix(k, "//") || k == "",
					}
				}
				keys[k], key = true, false
			}
			i = end
		}
	}
	return nil
}
