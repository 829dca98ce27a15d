other
remora dump shop -o monday
remora load monday --url mysql://root@other
