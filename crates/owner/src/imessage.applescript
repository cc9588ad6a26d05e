use framework "Foundation"
use scripting additions
on run
	set givenData to current application's NSFileHandle's fileHandleWithStandardInput()'s readDataToEndOfFile()
	set givenText to (current application's NSString's alloc()'s initWithData:givenData encoding:4) as text
	set theHandle to paragraph 1 of givenText
	set theMessage to text ((length of theHandle) + 2) thru -1 of givenText
	tell application "Messages"
		set theAccount to 1st account whose service type = iMessage
		send theMessage to participant theHandle of theAccount
	end tell
end run
