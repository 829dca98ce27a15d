other
remora dump shop -o monday
remora dump shop -o shop.dump
