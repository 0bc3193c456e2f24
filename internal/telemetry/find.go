package telemetry

// Secret is the position of a secret in a text.
type Secret struct {
	From, To int
	// Prefix is that of the token's format, such as ghp_. It is empty for other secrets.
	Prefix string
	// Name is what the secret is assigned to, such as db_password. It is empty for other secrets.
	Name string
}

// FindTokens returns the tokens in known formats that a text contains, in order. They are those that
// Redact removes.
func FindTokens(s string) []Secret {
	var out []Secret
	eachToken(s, func(from, to int, form *tokenForm) {
		out = append(out, Secret{From: from, To: to, Prefix: form.prefix})
	})
	return out
}

// FindPasswords returns the passwords in the URLs of a text, in order.
func FindPasswords(s string) []Secret {
	var out []Secret
	eachURLPassword(s, func(from, to int) { out = append(out, Secret{From: from, To: to}) })
	return out
}

// FindAssignments returns the values that a text assigns to names of secrets, in order.
func FindAssignments(s string) []Secret {
	var out []Secret
	eachAssignment(s, func(name string, from, to int) { out = append(out, Secret{From: from, To: to, Name: name}) })
	return out
}

// Visible returns a text without characters that are not shown, such as zero-width ones, and without
// terminal sequences. It keeps tabs and the ends of lines.
func Visible(s string) string {
	if !hasInvisible(s) {
		return s
	}
	return withoutInvisible(s)
}
