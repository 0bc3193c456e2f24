// Package injection is the guard that looks for text in a change that tries to instruct AI agents, or that
// hides something from people: in added lines, file names, commit messages and reports.
//
// The security of the product never depends on it. It finds known wordings, and every wording can be
// replaced by one that it does not know. What an agent may do is limited by its tools, its sandbox and
// the other guards; text from repositories is data, whether or not it is flagged here.
//
// The rules and what to do (with all of them: read the place, and remove it if it has no good reason):
//
//	injection/override    major   asks to ignore instructions, or gives a new role or new ones
//	injection/exfiltrate  major   asks for secrets or the system prompt to be read out or sent away
//	injection/role        medium  markers of a chat's roles, such as those of a system message
//	injection/agent       medium  addresses AI agents and asks for an action (minor: without a dangerous one)
//	injection/evade       medium  asks to hide something from people, or to report success regardless
//	injection/tags        major   Unicode tag characters, which only machines read
//	injection/bidi        major   characters that reorder text, so that code reads otherwise than it runs
//	injection/invisible   medium  invisible characters within words
//	injection/homoglyph   medium  an identifier that mixes scripts with letters that look the same
//	injection/encoded     major   base64 that decodes to one of the first five
//	injection/terminal    minor   escape sequences of terminals
//	injection/unexamined  minor   a part that was not examined because it is too long
//
// In tests and documents, and in quotes, findings about wording are one grade lower for each. The
// wordings are English, and those of the first rule also 14 other languages.
package injection
