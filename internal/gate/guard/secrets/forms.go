package secrets

// form is a format of secrets that neither gitleaks nor package telemetry has.
type form struct {
	form    string
	words   []string // one of which every secret has near it
	pattern string
	entropy float64
	weak    bool // the text around the value says what it is
}

const edge = `(?:[^A-Za-z0-9_-]|$)`

var ownForms = []form{
	{form: "Azure storage account key", words: []string{"accountkey="}, pattern: `(?i)AccountKey=([A-Za-z0-9+/]{40,88}={0,2})`, entropy: 3.5},
	{form: "Azure shared access key", words: []string{"sharedaccesskey="}, pattern: `(?i)SharedAccessKey=([A-Za-z0-9+/]{40,60}={0,2})`, entropy: 3.5},
	{form: "Azure shared access signature", words: []string{"sig="}, pattern: `[?&]s[vptre]{1,2}=[^\s"']{3,300}&(?:amp;)?sig=([A-Za-z0-9%+/]{40,120}(?:=|%3D){0,2})`, entropy: 3.5},
	{form: "AWS secret access key", words: []string{"aws"}, pattern: `(?i)aws[\w.-]{0,30}(?:secret|sk)[\w.-]{0,30}["']?\s{0,4}(?:=|:|=>|:=|,)\s{0,4}["']?([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)`, entropy: 4},
	{form: "Google OAuth access token", words: []string{"ya29."}, pattern: `\b(ya29\.[A-Za-z0-9_-]{40,400})`, entropy: 3.5},
	{form: "Google OAuth refresh token", words: []string{"1//0"}, pattern: `\b(1//0[A-Za-z0-9_-]{35,120})` + edge, entropy: 3.8},
	{form: "GitHub token in a URL", words: []string{"x-access-token:"}, pattern: `x-access-token:([A-Za-z0-9_]{20,255})@`, entropy: 3.5},
	{form: "Telegram bot token", words: []string{":aa"}, pattern: `(?:^|[^0-9])([0-9]{8,10}:AA[A-Za-z0-9_-]{33})` + edge, entropy: 4},
	{form: "Discord bot token", words: []string{"discord", "bot", "token", "client"}, pattern: `(?:^|[^A-Za-z0-9_.-])([MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40})` + edge, entropy: 4},
	{form: "Discord webhook", words: []string{"/api/webhooks/"}, pattern: `discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/([A-Za-z0-9_-]{60,72})`, entropy: 4},
	{form: "Atlassian token", words: []string{"atatt3"}, pattern: `\b(ATATT3[A-Za-z0-9_=-]{180,200})`, entropy: 4},
	{form: "New Relic user key", words: []string{"nrak-"}, pattern: `\b(NRAK-[A-Z0-9]{27})\b`, entropy: 3.5},
	{form: "Groq key", words: []string{"gsk_"}, pattern: `\b(gsk_[A-Za-z0-9]{48,60})\b`, entropy: 4},
	{form: "Replicate token", words: []string{"r8_"}, pattern: `\b(r8_[A-Za-z0-9]{37,40})\b`, entropy: 4},
	{form: "xAI key", words: []string{"xai-"}, pattern: `\b(xai-[A-Za-z0-9]{70,90})\b`, entropy: 4},
	{form: "Pinecone key", words: []string{"pcsk_"}, pattern: `\b(pcsk_[A-Za-z0-9_]{60,90})\b`, entropy: 4},
	{form: "LangSmith key", words: []string{"lsv2_"}, pattern: `\b(lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10})\b`, entropy: 3},
	{form: "Tailscale key", words: []string{"tskey-"}, pattern: `\b(tskey-[a-z]{3,10}-[A-Za-z0-9]{8,20}-[A-Za-z0-9]{20,40})\b`, entropy: 3.8},
	{form: "Supabase token", words: []string{"sbp_", "sb_secret_"}, pattern: `\b(sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{22,40})`, entropy: 3},
	{form: "Figma token", words: []string{"figd_"}, pattern: `\b(figd_[A-Za-z0-9_-]{38,48})`, entropy: 3.8},
	{form: "Netlify token", words: []string{"nfp_"}, pattern: `\b(nfp_[A-Za-z0-9]{36})\b`, entropy: 3.8},
	{form: "CircleCI token", words: []string{"ccipat_"}, pattern: `\b(CCIPAT_[A-Za-z0-9]{22}_[a-f0-9]{40})\b`, entropy: 3.5},
	{form: "Terraform Cloud token", words: []string{".atlasv1."}, pattern: `\b([A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,70})`, entropy: 3.8},
	{form: "Bitbucket app password", words: []string{"atbb"}, pattern: `\b(ATBB[A-Za-z0-9]{32})\b`, entropy: 3.8},
	{form: "Square secret", words: []string{"sq0csp-", "sq0atp-"}, pattern: `\b(sq0(?:csp|atp)-[A-Za-z0-9_-]{22,43})`, entropy: 3.8},
	{form: "Mapbox secret token", words: []string{"sk.eyj"}, pattern: `\b(sk\.eyJ[A-Za-z0-9_-]{40,200}\.[A-Za-z0-9_-]{20,40})`, entropy: 4},
	{form: "Twilio API key secret", words: []string{"twilio"}, pattern: `(?i)twilio[\w.-]{0,30}(?:token|secret)[\w.-]{0,10}["']?\s{0,4}(?:=|:|=>|:=|,)\s{0,4}["']?([a-f0-9]{32})\b`, entropy: 3, weak: true},
	{form: "Datadog key", words: []string{"dd_api_key", "dd-api-key", "dd_app_key", "datadog_api_key", "datadog_app_key"}, pattern: `(?i)(?:dd|datadog)[_-](?:api|app)[_-]key["']?\s{0,4}(?:=|:|=>|:=|,)\s{0,4}["']?([a-f0-9]{32,40})\b`, entropy: 3, weak: true},
	{form: "Cloudflare token", words: []string{"cloudflare", "cf_api"}, pattern: `(?i)(?:cloudflare|cf_api)[\w.-]{0,30}["']?\s{0,4}(?:=|:|=>|:=|,)\s{0,4}["']?([A-Za-z0-9_-]{37,40})` + edge, entropy: 3.8, weak: true},
	{form: "Heroku key", words: []string{"heroku"}, pattern: `(?i)heroku[\w.-]{0,20}key["']?\s{0,4}(?:=|:|=>|:=|,)\s{0,4}["']?([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b`, entropy: 3, weak: true},
	{form: "private JSON Web Key", words: []string{`"kty"`}, pattern: `"d"\s{0,4}:\s{0,4}"([A-Za-z0-9_-]{40,400})"`, entropy: 4, weak: true},
	{form: "password of a Docker registry", words: []string{`"auth"`}, pattern: `"auth"\s{0,4}:\s{0,4}"([A-Za-z0-9+/]{16,400}={0,2})"`, entropy: 3.3, weak: true},
	{form: "npm password", words: []string{"_auth", "_password"}, pattern: `(?m)(?:^|:)_(?:authToken|auth|password)\s{0,4}=\s{0,4}["']?([A-Za-z0-9+/=_.-]{12,400})`, entropy: 3, weak: true},
	{form: "password in .netrc", words: []string{"machine"}, pattern: `\bmachine\s{1,4}\S{1,200}\s{1,40}login\s{1,4}\S{1,200}\s{1,40}password\s{1,4}(\S{6,200})`, entropy: 2.5, weak: true},
	{form: "password of a command", words: []string{"--password", "--token", "--api-key", "-u"}, pattern: `(?:\s--(?:password|token|api-key|secret)[= ]["']?|\bcurl\b[^\n]{0,200}\s-u\s{0,2}["']?[A-Za-z0-9._-]{1,60}:)([A-Za-z0-9+/=_.!@#%^*-]{8,200})`, entropy: 3, weak: true},
}
