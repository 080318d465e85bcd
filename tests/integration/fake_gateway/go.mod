module fakegateway

go 1.23
