package tcpinfo

func parse(b []byte) Info { return parseFreeBSD(b) }
