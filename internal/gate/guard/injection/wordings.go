package injection

import "regexp"

// wording is a known way to say something. Texts are compared in lower case with single spaces.
type wording struct {
	class   Class
	words   string // one of which occurs in each match, separated by commas
	pattern string
	mild    bool // it counts less unless something dangerous follows
}

const (
	agents  = `(?:ai|llms?|language models?|gpt|chatgpt|claude|copilot|gemini|codex|cursor|devin|(?:ai |llm |coding |autonomous |automated )?(?:coding )?(?:agents?|assistants?|copilots?))`
	secrets = `(?:\b(?:secrets?|api[ _-]?keys?|credentials?|access tokens?|auth tokens?|tokens?|environment variables?|env vars?|private keys?|ssh keys?|id_rsa|passwords?|system prompt|source code)\b|\.env\b|~/\.ssh|\.aws/credentials)`
)

// dangerous is what an agent should not do because a text says so.
var dangerous = regexp.MustCompile(secrets + `|\b(?:approve|merge|disable|delete|curl|wget|http|upload|send|ignore|bypass|sudo|rm -rf|force.push|skip (?:the )?(?:tests|review|check)|download|exfiltrat)`)

var wordings = []wording{
	{class: Override, words: "ignor,disregard,forget,discard,overrid,set aside", pattern: `\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget|discard|overrid(?:e|ing)|set aside) (?:(?:all|any|each|every|everything|of|the|your|my|our|these|those|what|and|completely) ){0,5}(?:previous|prior|above|earlier|preceding|foregoing|former|past)(?: \S+){0,2}? (?:instructions?|prompts?|directives?|guidelines?|orders|directions)\b`},
	{class: Override, words: "ignor,disregard,forget,overrid,bypass", pattern: `\b(?:ignore|disregard|forget|override|bypass) (?:all )?(?:your|the system(?:'s)?|its) (?:(?:system|safety|initial|original|current|developer) ){0,2}(?:prompts?|instructions?|guidelines?|guardrails?|training|directives?|restrictions?)\b`},
	{class: Override, words: "forget everything,everything above", pattern: `\b(?:forget|ignore|disregard) everything (?:above|before|you (?:were|have been|know)|that (?:came|was))`},
	{class: Override, words: "new instruction,new task,real task,actual task,new objective,new goal,updated instruction", pattern: `\byour (?:new|real|actual|true|updated|only) (?:instructions? (?:is|are|:)|task is|objective is|goal is|mission is)|(?:^|[\n.:!] ?)(?:new|updated) instructions?(?: for (?:you|the assistant|the agent))?:`},
	{class: Override, words: "you are now,from now on", pattern: `\byou are now (?:in (?:developer|god|debug|admin|unrestricted) mode|dan\b|an? (?:unrestricted|unfiltered|evil|different|new|root|admin)|free (?:of|from)|no longer|acting|operating)|\bfrom now on,? you (?:are|will|must|only)\b`},
	{class: Override, words: "do anything now,god mode,dan mode,jailbreak mode,system override,jailbreak,unrestricted", pattern: `\bdo anything now\b|\b(?:enable|enter|activate) (?:god|dan|jailbreak) mode\b|\bsystem override\b|\b(?:act|behave|respond) as (?:an )?(?:unrestricted|jailbroken|unfiltered)\b`},
	{class: Override, words: "supersede,take precedence,takes precedence,higher priority", pattern: `\b(?:this|these|the following)(?: \S+){0,3} (?:supersedes?|takes? precedence over|ha(?:s|ve) (?:a )?higher priority than|overrides?) (?:all |any |your |the |every ){0,3}(?:previous|prior|other|system|earlier|original) (?:instructions?|prompts?|messages?|rules|directives?)`},
	{class: Override, words: "ignorier,vergiss,missacht,vergessen sie", pattern: `\b(?:ignoriere|ignorieren|ignoriert|vergiss|vergesst|vergessen|missachte) .{0,40}(?:vorherigen|vorigen|bisherigen|obigen|früheren|vorangegangenen|deine|ihre) .{0,20}?(?:anweisung|befehl|instruk|regel|vorgabe)`},
	{class: Override, words: "ignore,oublie", pattern: `\b(?:ignorez|ignore|ignorer|oubliez|oublie) .{0,30}(?:instructions|consignes|directives|ordres) (?:précédentes|précédents|antérieures|ci-dessus|reçues)`},
	{class: Override, words: "ignor,olvid,omit,haz caso omiso", pattern: `\b(?:ignora|ignore|ignorar|olvida|olvide|omite|haz caso omiso de) .{0,30}(?:instrucciones|órdenes|indicaciones|reglas) (?:anteriores|previas|de arriba)`},
	{class: Override, words: "ignor,esque,desconsider", pattern: `\b(?:ignore|ignora|esqueça|esquece|desconsidere) .{0,30}(?:instruções|ordens|regras) (?:anteriores|prévias|acima)`},
	{class: Override, words: "ignor,dimentica", pattern: `\b(?:ignora|ignorate|dimentica|dimenticate) .{0,30}(?:(?:istruzioni|ordini|comandi|regole) (?:precedenti|sopra)|precedenti (?:istruzioni|ordini))`},
	{class: Override, words: "negeer,vergeet", pattern: `\b(?:negeer|vergeet) .{0,30}(?:vorige|eerdere|voorgaande|bovenstaande) (?:instructies|opdrachten|regels|aanwijzingen)`},
	{class: Override, words: "ignoruj,zapomnij", pattern: `\b(?:zignoruj|ignoruj|zapomnij) .{0,30}(?:poprzednie|wcześniejsze|powyższe|poprzednich) (?:instrukcje|polecenia|instrukcj|poleceń)`},
	{class: Override, words: "игнорир,забудь", pattern: `(?:игнорируй|проигнорируй|забудь)\S* .{0,40}(?:предыдущ|прежн|выше)\S* .{0,20}?(?:инструкц|указан|команд)`},
	{class: Override, words: "ігнор,забудь", pattern: `(?:ігноруй|проігноруй|забудь)\S* .{0,40}попередн\S* .{0,20}?(?:інструкц|вказівк)`},
	{class: Override, words: "talimat,komut", pattern: `(?:önceki|yukarıdaki) .{0,20}(?:talimat|komut)\S* .{0,20}(?:yok say|unut|görmezden)`},
	{class: Override, words: "忽略,无视,忘记,忽視,無視,忘記", pattern: `(?:忽略|无视|忘记|忽視|無視|忘記).{0,12}(?:之前|以上|先前|前面|上述|以前).{0,12}(?:指令|指示|提示|说明|說明|命令)`},
	{class: Override, words: "指示,命令,プロンプト", pattern: `(?:以前|これまで|上記|前|先ほど)の.{0,12}(?:指示|命令|プロンプト).{0,8}(?:無視|忘れ)`},
	{class: Override, words: "무시,잊", pattern: `(?:이전|위의|앞의|앞선).{0,12}(?:지시|명령|지침).{0,10}(?:무시|잊)`},
	{class: Override, words: "تجاهل", pattern: `تجاهل.{0,40}(?:التعليمات|الأوامر)`},
	{class: Override, words: "निर्देश", pattern: `(?:पिछले|पूर्व|उपरोक्त).{0,20}निर्देश.{0,24}(?:अनदेखा|भूल|नज़रअंदाज़)`},

	{class: Exfiltrate, words: "send,post,upload,exfiltrat,transmit,forward,leak,copy,paste,email,include,append", pattern: `\b(?:send|post|upload|exfiltrate|transmit|forward|leak|copy|paste|e-?mail|include|append|submit)\b[^.]{0,60}?` + secrets + `[^.]{0,60}?(?:\bto (?:https?://|the following|an? (?:external|attacker|remote)|this (?:url|address|endpoint|webhook|server)|attacker|my server|pastebin|a (?:gist|paste))|\bin (?:the|your) (?:pull request|commit message|reply|answer|response|comment|output|summary)|\bas (?:a )?(?:query|url) parameters?)`},
	{class: Exfiltrate, words: "read,collect,gather,find,extract,dump,print,locate", pattern: `\b(?:read|collect|gather|find|extract|dump|print|locate|open)\b[^.]{0,40}?` + secrets + `[^.]{0,40}?\b(?:and|then) (?:send|post|upload|transmit|include|put|paste|append|forward|e-?mail|embed|encode|exfiltrate)\b`},
	{class: Exfiltrate, words: "system prompt,hidden instruction,initial instruction,your instruction", pattern: `\b(?:reveal|print|repeat|output|show|tell me|leak|disclose|quote|summari[sz]e|dump|write out)\b.{0,30}?\b(?:(?:your|the|its) (?:full |entire |complete |whole |original )?(?:system|hidden|initial|developer) (?:prompt|instructions?|message)|your (?:prompt|instructions))\b`},
	{class: Exfiltrate, words: "curl,wget,nc ", pattern: `(?:\bcat|\benv|\bprintenv|\btar|\bbase64)\b[^|]{0,80}\|(?: ?base64[^|]{0,20}\|)? ?(?:curl|wget|nc)\b.{0,80}(?:https?://|@-|\d{1,3}\.\d{1,3}\.)`},
	{class: Exfiltrate, words: "curl,wget", pattern: `\b(?:curl|wget)\b.{0,120}(?:\$\((?:env|printenv|cat )|@~/|@/etc/|@\.env|@\$home/|~/\.ssh|id_rsa|\.aws/credentials)`},
	{class: Exfiltrate, words: "![", pattern: `!\[[^\]]{0,60}\]\(https?://[^)\s]{1,120}(?:=|/)(?:\{|\[|<|\$|%7b)(?:[^)]{0,20})(?:secret|token|data|prompt|conversation|history|key|content)`},

	{class: Role, words: "<|", pattern: `<\|(?:im_start|im_end|im_sep|system|user|assistant|endofprompt|start_header_id|end_header_id|eot_id|begin_of_text|channel|message)\|>`},
	{class: Role, words: "[inst],<<sys>>", pattern: `\[inst\] ?(?:<<sys>>|\S)|<<sys>>`},
	{class: Role, words: "<system,</system,<instructions,<important,<admin,<assistant", pattern: `</?(?:system|system[_-](?:prompt|message|reminder|instructions?)|important_instructions|important|instructions|admin|assistant)>.{0,40}?\b(?:you (?:are|must|will|should)|ignore|disregard|always|never|do not|from now on|new instructions|before (?:you|using|answering)|run|execute|approve|send)\b`},
	{class: Role, words: "system:,system message:,system prompt:,assistant:", pattern: `(?:^|[\n#*>\]"'] ?|\. )(?:system|system (?:message|prompt|instruction|note|alert)|assistant):(?:\*\*)? ?(?:you (?:are|must|will|should)|ignore|disregard|from now on|new instructions|sure[,!]|override|the user has (?:approved|authorized))`},
	{class: Role, words: "human:", pattern: `(?:^|[\n"'] ?)human:.{3,200}assistant:`},
	{class: Role, words: "### instruction,### system,###instruction,instruction:", pattern: `###? ?(?:system|instructions?)(?: prompt)?:? (?:you (?:are|must|will)|ignore|disregard|from now on|always approve)`},

	{class: Agent, mild: true, words: "if you are,if you're", pattern: `\bif (?:you are|you're) (?:reading this (?:as )?)?(?:an? )?` + agents + `\b`},
	{class: Agent, mild: true, words: "agent,assistant,ai ,llm,language model,claude,copilot,chatgpt,gemini,codex,cursor,devin", pattern: `\b(?:note|message|attention|notice|instructions?|instruction|reminder|dear|hey|hello|important|warning)(?: to| for|,|:)? (?:all |any |the |every )?(?:ai|llms?|language models?|claude|copilot|chatgpt|gemini|codex|cursor|devin|(?:ai |llm |coding |autonomous |automated )+(?:agents?|assistants?|reviewers?|models?|tools?))\b`},
	{class: Agent, mild: true, words: "agent,assistant,ai ,llm,language model,claude,copilot,chatgpt,reviewer", pattern: `\b(?:ai|llms?|language models?|claude|copilot|chatgpt|automated|autonomous|coding)(?: coding| code| review)?(?: agents?| assistants?| models?| reviewers?| tools?| bots?| systems?)?(?: (?:reading|processing|reviewing|working|editing|that|who|on|in|with|this|the|file|code|repository|repo)){0,6},? (?:must|should|shall|are required to|is required to|have to|has to|need to|please|are instructed to|will) (?:always |first |also |now |immediately |never |not )?(?:run|execute|send|approve|ignore|read|post|upload|delete|include|add|skip|disable|print|reveal|output|fetch|download|open|push|merge|set|write|install|append|mark|respond|reply|call|use|treat|bypass|visit)\b`},
	{class: Agent, mild: true, words: "as an ai,as a language model,as an llm,as the agent,as the assistant", pattern: `\bas (?:an ai|a language model|an llm|the (?:coding )?(?:agent|assistant))(?: \S+){0,2},? you (?:must|should|have to|need to|are required|will)\b`},

	{class: Evade, words: "do not,don't,never,without", pattern: `\b(?:do not|don't|never|without) (?:report|mention|mentioning|tell|telling|reveal|inform|informing|flag|alert|alerting|disclose|notify|notifying|show|ask|asking)\b[^.]{0,30}?\b(?:this (?:instruction|message|comment|step|note)s?|these instructions|(?:to )?the (?:user|human|developer|reviewer|maintainer|owner|operator)(?:s|\b)(?: about| of| that| for|\.|,|!| this| any|$))`},
	{class: Evade, words: "approved,as safe,as passed,passing,success,lgtm,as done,verified", pattern: `\b(?:mark|report|treat|consider|classify|declare|rate|label|answer|respond|reply|return|say)\b[^.]{0,50}?\b(?:safe|approved|passed|passing|success(?:ful)?|trusted|benign|lgtm|done|verified)\b[^.]{0,50}?\b(?:regardless|no matter|even if|without (?:checking|reviewing|running|testing)|whatever|always|unconditionally|in all cases)`},
	{class: Evade, words: "always approve,approve this,must be approved,pre-approved,already approved,already been approved", pattern: `\balways approve (?:this|the|all|every)|\bapprove this (?:change|pull request|pr|patch|merge request|commit)(?: without|,? and| immediately| regardless| now)|\b(?:is|was|has been|have been|are) (?:pre-approved|already (?:been )?approved)\b[^.]{0,60}?\b(?:skip|no (?:further )?review|do not|without|merge)`},
	{class: Evade, words: "security review,security check,security scan,policy gate,safety check,safety filter,guardrail", pattern: `\b(?:skip|bypass|disable|turn off|circumvent|evade|avoid)\b (?:all |the |any |your |every ){0,2}(?:security (?:review|check|scan)s?|policy gate|safety (?:check|filter|guideline)s?|guardrails?)\b[^.]{0,40}?\b(?:for this|when|and|because|on this|before|in this)`},
}
